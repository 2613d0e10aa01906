// Colours of Bokeh's figures follow those of the page, light or dark, whenever either changes.
(function () {
  "use strict";
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function wanted() {
    return {
      axis_label_text_color: "--text", major_label_text_color: "--axis", axis_line_color: "--axis",
      major_tick_line_color: "--axis", minor_tick_line_color: null, grid_line_color: "--grid",
      outline_line_color: "--line", group_text_color: "--axis", separator_line_color: "--line",
    };
  }
  function recolour() {
    if (!window.Bokeh) return;
    var names = wanted();
    window.Bokeh.documents.forEach(function (doc) {
      doc.all_models.forEach(function (model) {
        var changes = {};
        Object.keys(names).forEach(function (key) {
          if (names[key] && key in model.properties) changes[key] = colour(names[key]);
        });
        (model.tags || []).forEach(function (tag) {
          // "colour:line_color=--text" sets one property from one variable of the page
          var found = /^colour:(\w+)=(--[\w-]+)$/.exec(tag);
          if (found && found[1] in model.properties) changes[found[1]] = colour(found[2]);
        });
        if (Object.keys(changes).length) model.setv(changes);
      });
    });
  }
  window.mixfold = window.mixfold || {};
  window.mixfold.recolour = recolour;
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
})();
