"""Where an E-step is computed: the cores of this machine, or a GPU."""
