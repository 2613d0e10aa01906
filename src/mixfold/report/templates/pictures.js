// When figures are drawn: gives them the colours of the page, names for screen readers, and menus.
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
  function model(name) {
    var found = null;
    window.Bokeh.documents.forEach(function (one) { found = one.get_model_by_name(name) || found; });
    return found;
  }
  function label(axis, text) {
    // a plain text, since a string is read as a formula if it has dollar signs
    var PlainText = window.Bokeh.Models.get("PlainText");
    model(axis).axis_label = new PlainText({ text: text });
  }
  function fill(name, columns) {
    var source = model(name);
    source.data = Object.assign({}, source.data, columns);
  }
  function cells(values) {
    // missing cells, which are not drawn
    return values.map(function (one) { return one === null ? NaN : one; });
  }
  function ellipse(center, covariance, i, j, radius) {
    // the same as _ellipse in _scatter.py
    var first = Math.sqrt(Math.max(covariance[i][i], 0));
    var along = first > 0 ? covariance[i][j] / first : 0;
    var rest = Math.sqrt(Math.max(covariance[j][j] - along * along, 0));
    var xs = [], ys = [];
    for (var step = 0; step <= 72; step++) {
      var angle = 2 * Math.PI * step / 72;
      xs.push(center[i] + radius * first * Math.cos(angle));
      ys.push(center[j] + radius * (along * Math.cos(angle) + rest * Math.sin(angle)));
    }
    return [xs, ys];
  }
  var KINDS = {
    options: function (data, chosen) {
      var option = data.options[chosen.option];
      Object.keys(option.sources).forEach(function (name) { fill(name, option.sources[name]); });
      label(data.axis, option.label);
    },
    axes: function (data, chosen) {
      var curves = data.centers.map(function (center, k) {
        return ellipse(center, data.covariances[k], chosen.x, chosen.y, data.radius);
      });
      fill("scatter-points", { x: cells(data.values[chosen.x]), y: cells(data.values[chosen.y]) });
      fill("scatter-ellipses", {
        xs: curves.map(function (one) { return one[0]; }),
        ys: curves.map(function (one) { return one[1]; }),
      });
      label("scatter-x", data.labels[chosen.x]);
      label("scatter-y", data.labels[chosen.y]);
    },
  };
  function attach(figure) {
    var menus = Array.from(figure.querySelectorAll("select[data-choice]"));
    var text = figure.querySelector("script[type='application/json']");
    if (!menus.length || !text) return;
    var data = JSON.parse(text.textContent);
    menus.forEach(function (menu) {
      menu.addEventListener("change", function () {
        var chosen = {};
        menus.forEach(function (one) { chosen[one.dataset.choice] = Number(one.value); });
        KINDS[data.kind](data, chosen);
      });
    });
  }
  whenDrawn(function () {
    window.mixfold.recolour();
    describe();
    document.querySelectorAll("figure").forEach(attach);
    document.documentElement.dataset.drawn = "yes";
  });
})();
