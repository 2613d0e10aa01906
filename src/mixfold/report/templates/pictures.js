// When figures are drawn: gives them the colours of the page, and names for screen readers.
(function () {
  "use strict";
  var TOOLS = {
    "pan": "Move the picture", "box-zoom": "Zoom into a rectangle", "wheel-zoom": "Zoom by the wheel",
    "zoom-in": "Zoom in", "zoom-out": "Zoom out", "reset": "Show the whole picture",
  };
  function each(root, act) {
    root.querySelectorAll("*").forEach(function (one) {
      act(one);
      if (one.shadowRoot) each(one.shadowRoot, act);
    });
  }
  function describe() {
    document.querySelectorAll("figure").forEach(function (figure) {
      var name = figure.querySelector("figcaption").textContent.trim();
      each(figure.querySelector(".drawing"), function (one) {
        if (one.tagName === "CANVAS") {
          one.setAttribute("role", "img");
          one.setAttribute("aria-label", name);
        }
        var icon = one.className && /bk-tool-icon-([\w-]+)/.exec(one.className);
        var button = icon && one.getRootNode().host;
        if (!button) return;
        button.setAttribute("role", "button");
        button.setAttribute("aria-label", TOOLS[icon[1]] || icon[1]);
      });
    });
  }
  function whenDrawn(then) {
    var documents = window.Bokeh ? window.Bokeh.documents : [];
    var wanted = document.querySelector(".drawing") !== null;
    var drawn = documents.length && documents.every(function (one) { return one.is_idle; });
    if (drawn) then();
    else if (wanted) window.setTimeout(function () { whenDrawn(then); }, 40);
  }
  whenDrawn(function () {
    window.mixfold.recolour();
    describe();
    document.documentElement.dataset.drawn = "yes";
  });
})();
