// Writes what the server tells into the page, and tells the server what was pressed or chosen.
(function () {
  "use strict";
  var shown = {};
  function at(id) { return document.getElementById(id); }
  function write(node, text) { if (node.textContent !== text) node.textContent = text; }
  function part(tag, text, className) {
    var made = document.createElement(tag);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  }
  function changed(key, value) {
    var text = JSON.stringify(value);
    if (shown[key] === text) return false;
    shown[key] = text;
    return true;
  }
  function note(node, text) { node.hidden = !text; write(node, text); }
  function status(kind, words) {
    at("status").dataset.status = kind;
    write(at("status").firstElementChild, kind);
    write(at("status").lastElementChild, words);
  }
  function alarms(found) {
    at("no-alarms").hidden = found.length > 0;
    at("some-alarms").hidden = found.length === 0;
    at("alarms").replaceChildren.apply(at("alarms"), found.map(function (one) {
      var row = document.createElement("tr"), head = part("th", one.row, "number");
      head.scope = "row";
      row.append(head, part("td", one.time), part("td", one.cells.join(", "), "text"),
        part("td", one.log_density, "number"), part("td", one.threshold, "number"));
      return row;
    }));
  }
  function choices(news) {
    document.querySelectorAll("select[data-choice]").forEach(function (menu) {
      var all = news.columns.map(function (name, i) { return i; });
      var which = menu.dataset.only ? news.shown : all;
      menu.replaceChildren.apply(menu, which.map(function (i) {
        var made = part("option", news.columns[i]);
        made.value = i;
        return made;
      }));
      menu.value = news.chosen[menu.dataset.choice];
    });
  }
  function read(news) {
    if (!news.facts) return;
    status(news.status, news.words);
    var pause = at("pause");
    pause.disabled = news.status === "ended" || news.status === "stopped";
    at("save").disabled = false;
    pause.setAttribute("aria-pressed", String(news.paused));
    Object.keys(news.facts).forEach(function (key) {
      write(document.querySelector("[data-fact=" + key + "]"), news.facts[key]);
    });
    write(at("threshold"), news.threshold);
    write(at("drifts"), news.drifts);
    note(at("saved"), news.saved && "Model " + news.saved);
    note(at("bad"), news.bad && "Last row that was left out: " + news.bad);
    if (changed("columns", [news.columns, news.shown])) choices(news);
    if (changed("alarms", news.alarms)) alarms(news.alarms);
    if (changed("messages", news.messages)) {
      at("messages").replaceChildren.apply(at("messages"), news.messages.map(function (text) {
        return part("li", text);
      }));
    }
  }
  function connect(page) {
    var news = page.get_model_by_name("news"), commands = page.get_model_by_name("commands");
    function tell(name, value) { commands.data = { name: [name], value: [value] }; }
    function update() { read(JSON.parse(news.data.json[0])); }
    news.properties.data.change.connect(update);
    update();
    at("pause").addEventListener("click", function () {
      tell(at("pause").getAttribute("aria-pressed") === "true" ? "continue" : "pause", Date.now());
    });
    at("save").addEventListener("click", function () { tell("save", Date.now()); });
    document.querySelectorAll("select[data-choice]").forEach(function (menu) {
      menu.addEventListener("change", function () { tell(menu.dataset.choice, Number(menu.value)); });
    });
    page.on_event("connection_lost", function () {
      status("gone", "The program has ended or cannot be reached; this page shows what it was last told.");
      at("pause").disabled = at("save").disabled = true;
    });
    document.documentElement.dataset.live = "yes";
  }
  function wait() {
    var page = window.Bokeh && window.Bokeh.documents[0];
    if (page && page.get_model_by_name("news")) connect(page);
    else window.setTimeout(wait, 40);
  }
  wait();
})();
