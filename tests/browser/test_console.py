"""The console as a person uses it, in a real Chromium, over a database whose cycles run without Spark.

The tests tell one story on one server, in order: a first visit, the demo, then every page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.browser.browser import Visitor, chromium, serving

expect.set_options(timeout=120_000)
COUNT = re.compile(r"[1-9][\d,]*")
# The names of the catalog come with this function; until then a page waits for it.
LATE_NAMES = """
let offer;
Object.defineProperty(window, "penstockOffer", {
  get: () => window.namesHaveCome ? offer : undefined,
  set: (found) => { offer = found; },
});
"""

ASK_FOR_COMPLETIONS = """
async () => {
  const CM = await import("nicegui-codemirror");
  const view = await getElement(document.querySelector(".editor")).editorPromise;
  const seen = new MutationObserver(() => {
    if (view.dom.querySelector(".cm-tooltip-autocomplete")) window.completionsShown = true;
  });
  seen.observe(view.dom, { childList: true, subtree: true });
  const pressed = new KeyboardEvent("keydown", { key: " ", code: "Space", keyCode: 32, ctrlKey: true });
  CM.runScopeHandlers(view, pressed, "editor");
}
"""


DRAWN_AS = """
kind => {
  const drawn = getElement(document.querySelector(".chart.tall"))?.chart?.getOption()?.series ?? [];
  return drawn.length > 0 && drawn.every(series => series.type === kind);
}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chromium()
    with serving(tmp_path_factory.mktemp("console") / "data") as found:
        yield found


def test_a_first_visit_offers_the_demo_and_three_steps(visitor: Visitor) -> None:
    visitor.page.goto(visitor.url)
    expect(visitor.page).to_have_url(f"{visitor.url}/console/")
    for step in ("Describe your sensors", "Send a reading", "Keep a question"):
        expect(visitor.page.get_by_role("heading", name=step)).to_be_visible()
    visitor.screenshots("welcome")
    visitor.button("Start the demo")
    expect(visitor.page.locator(".tile", has_text="Sensors").locator(".value")).to_have_text("60")


def test_the_overview_shows_rates_alarms_and_each_sensor_where_it_stands(visitor: Visitor) -> None:
    visitor.go()
    tiles = visitor.page.locator(".tile")
    expect(tiles.filter(has_text="Readings/s").locator(".value")).to_have_text(COUNT)
    expect(tiles.filter(has_text="Standing queries").locator(".value")).to_have_text("4")
    expect(tiles.filter(has_text="Sensors").locator(".more")).to_have_text("all live")
    expect(visitor.page.get_by_text("gas_alarm: ").first).to_be_visible()
    expect(visitor.page.locator(".chart.tall canvas")).to_be_visible()
    visitor.screenshots("overview")


def test_keys_and_links_lead_to_every_page_and_the_theme_stays(visitor: Visitor) -> None:
    visitor.go()
    for key, title in (
        ("s", "Sensors"),
        ("q", "Queries"),
        ("l", "Load"),
        ("y", "System"),
        ("a", "Ask"),
        ("o", "Overview"),
    ):
        visitor.until(lambda: _leads_to(visitor, key, title))  # noqa: B023
    visitor.button("Theme: auto")
    visitor.button("Theme: light")
    expect(visitor.page.locator("body")).to_have_class(re.compile("body--dark"))
    # The browser is told to remember it a moment after it is shown.
    visitor.until(lambda: "theme=dark" in str(visitor.page.evaluate("document.cookie")))
    visitor.go("system")
    expect(visitor.page.locator("body")).to_have_class(re.compile("body--dark"))


def _leads_to(visitor: Visitor, key: str, title: str) -> bool:
    """Both keys within the page's second and a half: on a busy machine, that may take more than one attempt."""
    visitor.page.locator("h1").click()
    visitor.page.keyboard.press("g")
    visitor.page.keyboard.press(key)
    try:
        expect(visitor.page.get_by_role("heading", name=title, level=1)).to_be_visible(timeout=10_000)
    except AssertionError:
        return False
    return True


def test_a_question_is_answered_as_a_table_and_as_a_chart_and_taken_away(visitor: Visitor, tmp_path: Path) -> None:
    visitor.go("ask")
    visitor.write("SELECT * FROM latest")
    visitor.page.keyboard.press("Control+Enter")
    expect(visitor.page.get_by_text(re.compile(r"60 rows"))).to_be_visible()
    expect(visitor.page.locator(".list tbody tr").first).to_be_visible()
    visitor.screenshots("ask-table")
    visitor.button("Chart")
    expect(visitor.page.locator(".chart.tall canvas")).to_be_visible()
    visitor.screenshots("ask-chart")
    for name, kind in (("Bars", "bar"), ("Scatter", "scatter"), ("Over time", "line")):
        visitor.page.get_by_role("combobox", name="Chart").click()
        visitor.page.get_by_role("option", name=name).click()
        visitor.page.wait_for_function(DRAWN_AS, arg=kind)
    for kind in ("CSV", "Parquet"):
        with visitor.page.expect_download() as download:
            visitor.button(kind)
        download.value.save_as(tmp_path / f"answer.{kind.lower()}")
    assert len((tmp_path / "answer.csv").read_text().splitlines()) == 61
    assert pq.read_table(tmp_path / "answer.parquet").num_rows == 60


def test_a_mistake_is_underlined_where_it_is(visitor: Visitor) -> None:
    visitor.go("ask")
    visitor.write("SELECT location,\n       pmp FROM probes")
    visitor.button("Run")
    expect(visitor.page.locator(".mistake")).to_have_text("pmp")
    expect(visitor.page.get_by_role("alert")).to_contain_text('table "probes" has no column "pmp"')
    expect(visitor.page.get_by_role("alert")).to_contain_text('did you mean "ppm"?')
    visitor.screenshots("ask-mistake")


def test_names_of_the_catalog_complete(visitor: Visitor) -> None:
    visitor.go("ask")
    visitor.write("SELECT * FROM pro")
    visitor.page.keyboard.type("b")
    options = visitor.page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    expect(options).to_have_text(["probes", "probe_id"])  # behind FROM, what can be read comes first
    options.first.click()
    expect(visitor.page.locator(".cm-content")).to_contain_text("FROM probes")
    visitor.write("SELECT pro")
    visitor.page.keyboard.type("b")
    expect(options).to_have_text(["probe_id", "probes"])


def test_completions_begin_with_what_was_typed_and_fit_where_it_stands(visitor: Visitor) -> None:
    visitor.go("ask")
    options = visitor.page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    visitor.write("SELECT * FROM ")
    visitor.page.keyboard.press("Control+Space")
    expect(options.filter(has_text="probes")).to_have_count(1)
    expect(options.filter(has_text="gas_alarm")).to_have_count(1)
    expect(options.filter(has_text="ppm")).to_have_count(0)  # a column cannot be read
    expect(visitor.page.locator(".cm-completionIcon").first).to_be_hidden()
    visitor.page.keyboard.press("Escape")
    visitor.write("SELECT * FROM ")
    visitor.page.keyboard.type("alar")  # the beginning of a part of a name
    expect(options.filter(has_text="gas_alarm")).to_have_count(1)
    visitor.page.keyboard.press("Escape")
    visitor.write("SELECT * FROM lt")
    visitor.page.keyboard.type("s")
    expect(options.filter(has_text="localtimestamp")).to_have_count(1)  # the editor's own words take such letters
    expect(options.filter(has_text="latest")).to_have_count(0)


def test_completions_that_come_after_the_editor_was_left_close_again(visitor: Visitor) -> None:
    visitor.go("ask")
    options = visitor.page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    visitor.write("SELECT * FROM pro")
    visitor.page.keyboard.type("b")
    expect(options).to_have_text(["probes", "probe_id"])
    visitor.page.locator("h1").click()
    expect(options).to_have_count(0)
    # As if the list had taken its time: it is asked for when nobody is in the editor any more.
    visitor.page.evaluate(ASK_FOR_COMPLETIONS)
    visitor.page.wait_for_function("window.completionsShown")
    expect(options).to_have_count(0)


def test_names_that_come_late_complete_what_was_typed_before(visitor: Visitor) -> None:
    visitor.page.add_init_script(LATE_NAMES)
    visitor.go("ask")
    editor = visitor.page.locator(".cm-content")
    editor.click()
    visitor.page.keyboard.press("Control+a")
    visitor.page.keyboard.type("SELECT * FROM prob")
    options = visitor.page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    visitor.page.wait_for_timeout(500)  # the editor has looked for completions, and found none
    expect(options).to_have_count(0)
    visitor.page.evaluate("window.namesHaveCome = true")
    expect(options).to_have_text(["probes", "probe_id"])
    visitor.page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    visitor.page.keyboard.press("Backspace")
    visitor.page.keyboard.type("be")
    expect(options).to_have_text(["probes", "probe_id"])
    options.first.click()
    expect(editor).to_contain_text("FROM probes")


def test_a_question_is_kept_watched_given_another_window_and_dropped(visitor: Visitor) -> None:
    visitor.go("ask")
    visitor.write("SELECT probe_id, ppm, ts FROM probes WHERE ppm > 1 BEGIN (NOW - 1 MINUTE) END (NOW)")
    visitor.button("Keep as a standing query")
    visitor.page.get_by_label("Name", exact=True).fill("all_gas")
    visitor.page.get_by_label("What it is for (optional)").fill("every reading of a minute")
    visitor.button("Keep")
    expect(visitor.page.get_by_role("heading", name="all_gas", level=1)).to_be_visible()
    expect(visitor.page.locator(".chip", has_text="RUNNING")).to_be_visible()
    found = visitor.page.locator(".tile", has_text="Rows found").locator(".value")
    expect(found).to_have_text(COUNT)
    before = found.inner_text()
    expect(found).not_to_have_text(before)  # it lives
    expect(visitor.page.locator(".chart.tall canvas")).to_be_visible()
    expect(visitor.page.locator(".plan text.rate").first).to_have_text(re.compile(r"[1-9].*/s"))
    visitor.button("10 s")
    expect(visitor.page.get_by_text("BEGIN (NOW - 10s) END (NOW)").first).to_be_visible()
    expect(visitor.page.locator(".facts", has_text="registered").get_by_text("window", exact=True)).to_be_visible()
    visitor.screenshots("query")
    visitor.button("Pause")
    expect(visitor.page.locator(".chip", has_text="PAUSED")).to_be_visible()
    visitor.button("Resume")
    expect(visitor.page.locator(".chip", has_text="RUNNING")).to_be_visible()
    visitor.button("Drop")
    visitor.button("Drop it")
    expect(visitor.page.get_by_role("heading", name="Queries", level=1)).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="gas_alarm")).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="all_gas")).to_have_count(0)


def test_the_list_of_queries_leads_to_a_plan_of_boxes_and_arrows(visitor: Visitor) -> None:
    visitor.go("queries")
    expect(visitor.page.locator(".list tbody tr")).to_have_count(4)
    visitor.screenshots("queries")
    visitor.page.get_by_role("cell", name="plume_path").click()
    expect(visitor.page.locator(".plan rect")).to_have_count(15)
    expect(visitor.page.locator(".plan text", has_text="window join")).to_be_visible()
    expect(visitor.page.locator(".plan text.rate")).to_have_count(14)  # every arrow has its own
    visitor.page.locator(".plan").scroll_into_view_if_needed()
    visitor.screenshots("plan")


def test_a_static_value_is_changed_and_a_sensor_added_and_removed(visitor: Visitor) -> None:
    visitor.go("sensors")
    expect(visitor.page.get_by_role("cell", name="probes", exact=True)).to_be_visible()
    visitor.screenshots("sensors")
    visitor.page.get_by_role("cell", name="probes", exact=True).click()
    expect(visitor.page.locator(".spark polyline[points]").first).to_be_attached()
    visitor.screenshots("sensor-table")
    row = visitor.page.locator(".list tbody tr").nth(6)
    expect(row.locator("td").first).to_have_text("7")
    row.click()
    visitor.page.get_by_label("location (TEXT)").fill("the <b>new</b> lab")
    visitor.button("Save")
    expect(visitor.page.get_by_role("cell", name="the <b>new</b> lab")).to_be_visible()
    # It stays where it was.
    expect(visitor.page.locator(".list tbody tr").nth(6)).to_contain_text("the <b>new</b> lab")
    row.click()
    expect(visitor.page.get_by_label("reading (address)")).to_have_value("254,25")
    visitor.page.get_by_label("reading (address)").fill("250,25")
    visitor.button("Save")
    expect(visitor.page.get_by_label("reading (address)")).to_have_count(0)
    row.click()
    expect(visitor.page.get_by_label("reading (address)")).to_have_value("250,25")
    visitor.page.keyboard.press("Escape")
    visitor.button("Add a sensor")
    for label, value in {
        "probe_id (INT)": "61",
        "location (TEXT)": "roof",
        "x (DOUBLE)": "5",
        "y (DOUBLE)": "5",
    }.items():
        visitor.page.get_by_label(label).fill(value)
    visitor.page.get_by_label("reading (address)").fill("5,5")
    visitor.button("Save")
    expect(visitor.page.locator(".tile", has_text="Sensors").locator(".value")).to_have_text("61")
    visitor.page.get_by_label("Find").fill("roof")
    visitor.page.get_by_role("cell", name="roof").click()
    visitor.button("Remove")
    expect(visitor.page.locator(".tile", has_text="Sensors").locator(".value")).to_have_text("60")


def test_a_list_is_ordered_by_what_its_cells_mean_and_stays_so(visitor: Visitor) -> None:
    visitor.go("sensors/probes")
    names = visitor.page.locator(".list tbody tr td:first-child")
    head = visitor.page.get_by_role("columnheader", name="probe_id")
    head.click()
    # Without an order the rows look the same; a second click before the server has heard of the first would be the same click.
    expect(head).to_have_class(re.compile(r"\bsorted\b"))
    expect(names.nth(1)).to_have_text("2")  # and not 10, as texts would be
    head.click()
    expect(names.first).to_have_text("60")
    moved = visitor.page.locator(".list tbody .spark polyline").first
    before = moved.get_attribute("points") or ""
    expect(moved).not_to_have_attribute("points", before)  # new rows have come
    expect(names.first).to_have_text("60")
    visitor.page.get_by_role("columnheader", name="latest").press("Enter")
    visitor.page.wait_for_function(
        """() => {
          const shown = [...document.querySelectorAll(".list tbody tr td:nth-child(4)")].map(td => Number(td.innerText));
          return shown.length === 50 && shown.every((value, at) => at === 0 || shown[at - 1] <= value);
        }"""
    )


def test_every_row_can_be_reached_and_opened_by_keyboard(visitor: Visitor) -> None:
    visitor.go("sensors/probes")
    seventh = visitor.page.get_by_role("link", name="7", exact=True)
    moved = visitor.page.locator(".list tbody .spark polyline").first
    for there in (visitor.page.get_by_role("columnheader", name="latest"), seventh):
        there.focus()
        before = moved.get_attribute("points") or ""
        expect(moved).not_to_have_attribute("points", before)  # new rows have come
        expect(there).to_be_focused()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("heading", name="probes 7")).to_be_visible()
    visitor.screenshots("sensor")
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("heading", name="probes 7")).to_have_count(0)
    visitor.go("queries")
    visitor.page.get_by_role("link", name="gas_alarm").press("Enter")
    expect(visitor.page.get_by_role("heading", name="gas_alarm", level=1)).to_be_visible()


def test_a_page_takes_no_click_before_the_server_would_hear_it(visitor: Visitor) -> None:
    held: list[WebSocketRoute] = []
    visitor.page.route_web_socket(re.compile("socket.io"), lambda found: held.append(found))
    visitor.page.goto(f"{visitor.url}/console/sensors")
    page = visitor.page.locator(".frame")
    expect(page).to_have_attribute("inert", "")
    visitor.until(lambda: bool(held))
    said = "getComputedStyle(document.querySelector('.frame'), '::after').content"
    assert visitor.page.evaluate(said) == '"Connecting…"'
    held[0].connect_to_server()
    expect(page).not_to_have_attribute("inert", "")
    visitor.button("Add a table")
    expect(visitor.page.get_by_role("heading", name="Add a sensor table")).to_be_visible()


def test_a_table_is_made_by_a_form(visitor: Visitor) -> None:
    visitor.go("sensors")
    visitor.button("Add a table")
    visitor.page.get_by_label("Table", exact=True).fill("boilers")
    expect(visitor.page.locator(".q-dialog pre")).to_contain_text("CREATE TABLE boilers")
    visitor.screenshots("new-table")
    visitor.button("Edit as SQL")
    expect(visitor.page.locator(".cm-content")).to_contain_text("CREATE TABLE boilers")
    visitor.button("Run")
    expect(visitor.page.get_by_text("Done: CREATE TABLE")).to_be_visible()
    visitor.go("sensors/boilers")
    expect(visitor.page.get_by_text("No sensors yet.")).to_be_visible()
    visitor.button("Drop")
    visitor.button("Drop it")
    visitor.button("Add a table")
    visitor.page.get_by_label("Table", exact=True).fill("boilers")
    visitor.button("Create")
    expect(visitor.page.get_by_role("heading", name="boilers", level=1)).to_be_visible()


def test_a_file_of_readings_is_uploaded(visitor: Visitor, tmp_path: Path) -> None:
    visitor.go("sensors/boilers")
    visitor.button("Add a sensor")
    visitor.page.get_by_label("sensor_id (TEXT)").fill("a")
    visitor.button("Save")
    expect(visitor.page.get_by_role("link", name="a", exact=True)).to_be_visible()
    (tmp_path / "some.csv").write_text("sensor_id,value\na,1.5\nnobody,2\na,2.5\n")
    pq.write_table(pa.table({"sensor_id": ["a"], "value": [3.5]}), tmp_path / "one.parquet")
    (tmp_path / "half.parquet").write_bytes(b"PAR1")
    for file, said in (
        ("some.csv", "2 readings stored, 1 refused, the first of them, number 2, because:"),
        ("one.parquet", "1 reading stored."),
        ("half.parquet", "Nothing was stored:"),
    ):
        with visitor.page.expect_file_chooser() as chooser:
            visitor.button("Upload")
        chooser.value.set_files(tmp_path / file)
        expect(visitor.page.get_by_text(said)).to_be_visible()
    expect(visitor.page.locator(".tile", has_text="Readings/s").locator(".more")).to_have_text("3 stored")
    assert [p for p in visitor.problems if "400" not in p] == []
    visitor.problems.clear()  # the browser says that half a file was refused
    visitor.button("Drop")
    visitor.button("Drop it")
    expect(visitor.page.get_by_role("cell", name="probes", exact=True)).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="boilers")).to_have_count(0)


def test_the_system_page_shows_cycles_log_and_processes(visitor: Visitor) -> None:
    visitor.go("system")
    expect(visitor.page.get_by_role("cell", name="server", exact=True)).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="probes", exact=True)).to_be_visible()
    expect(visitor.page.locator(".chart canvas")).to_have_count(2)
    visitor.screenshots("system")
