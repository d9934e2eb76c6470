import json
from html.parser import HTMLParser

import numpy as np
import pytest

from audit.models import Attention, Pooled, model
from hitherto.audit import CAUSES, Finding, Report, audit
from hitherto.audit.report import SCHEMA, decode_map, encode_map
from hitherto.errors import ModelError


@pytest.fixture(scope="module")
def report():
    return audit(model(Attention, Pooled), lengths=(9,), modes=("map",))


def test_report_survives_json(report):
    again = Report.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    assert again.findings == report.findings
    assert (again.measured_map == report.measured_map).all()
    assert (again.verdict, again.exit_code) == ("findings", 1)


def test_report_json_has_the_keys_of_its_schema(report):
    plain = json.loads(report.to_json())
    assert set(plain) == set(SCHEMA["required"]) == set(SCHEMA["properties"])
    finding = SCHEMA["properties"]["findings"]["items"]
    assert all(set(f) == set(finding["required"]) for f in plain["findings"])
    assert plain["findings"][0]["cause"] in finding["properties"]["cause"]["enum"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other"}', "null"])
def test_report_refuses_other_json(text):
    with pytest.raises(ModelError, match="schema"):
        Report.from_json(text)


def test_report_refuses_a_map_that_does_not_fit(report):
    plain = json.loads(report.to_json())
    plain["measured_map"]["rows"][0] = "x"
    with pytest.raises(ModelError):
        Report.from_json(json.dumps(plain))


def test_map_survives_its_runs():
    grid = np.random.default_rng(0).random((7, 9)) < 0.5
    assert (decode_map(encode_map(grid)) == grid).all()


def test_report_text_tells_all(report):
    text = str(report)
    for part in ("findings", "mixers.1 (Pooled)", "next:", "covered:", "forwards, ", "seed 0"):
        assert part in text
    assert str(report.findings[0]) in text


class Tags(HTMLParser):
    """Collects what a page would load, and whether its tags close."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.paths = [], [], 0

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.loads += [v for k, v in attrs.items() if k in ("src", "href", "xlink:href")]
        self.paths += tag == "path"
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_report_page_is_whole_and_loads_nothing(report):
    page = report.to_html()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.loads == []
    assert "http" not in page
    assert tags.paths == 4
    assert "mixers.1 (Pooled)" in page


def test_report_page_escapes_what_a_model_says():
    def fails(x):
        raise RuntimeError("<script>alert(1)</script>")

    page = audit(fails, width=3).to_html()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_finding_takes_only_listed_causes():
    with pytest.raises(ModelError, match="closed lists"):
        Finding(kind="leak", probe="map", length=3, cause="gremlins")
    with pytest.raises(ModelError, match="closed lists"):
        Finding(kind="odd", probe="map", length=3)
    assert (
        Finding(kind="leak", probe="map", length=3, cause="polarity").next_step
        == (CAUSES["polarity"])
    )


def test_package_is_its_verb():
    """`hitherto.audit` is a package and, as the README writes it, a function."""
    import hitherto.audit
    from hitherto import audit as verb

    assert verb is hitherto.audit
    assert verb(lambda x: x.cumsum(1), width=2, lengths=(9,), modes=()).verdict == "clean"
