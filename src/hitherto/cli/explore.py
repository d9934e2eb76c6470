"""`hitherto explore`: a page to look at a mask, a model's generation, or an audit."""

import json as jsonlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from hitherto.cli.blame import read_mask
from hitherto.cli.receives import MOST_CELLS, received
from hitherto.cli.terminal import OK, console, say
from hitherto.errors import MaskError, ModelError, explain
from hitherto.mask import bind_batch
from hitherto.picture.explore import explore_page, is_page

if TYPE_CHECKING:
    from hitherto.model import Decoder

MOST_TEXT = 4 << 20
"""Characters of a mask's text, or of a report's, that a page takes."""
MOST_LENGTH = 1 << 26
LESSON, AUDITED = 64, 40
"""Tokens of the lesson, and length of the audit's inputs."""
SMALL = 20_000_000
"""Weights of a model that is audited in passing."""


def explore(
    target: str | None, length: int, keys: int | None, start: int | None, prompt: str | None,
    tokens: int, audit: bool, out: Path | None, serve: bool, port: int,
) -> int:  # fmt: skip
    """Write the page, or serve it until Ctrl-C."""
    screen = console()
    data = {"mask": _mask("Causal() & (Window(131072) | Prefix(16384))", 1 << 20, None, None)}
    if target is not None:
        named = _is_model(target)
        data |= (
            model_data(target, prompt, tokens, audit, screen)
            if named
            else _report_or_mask(target, length, keys, start)
        )
    page = explore_page(data)
    if not serve or out:
        path = out or Path("explore.html")
        _write(path, page)
        say(screen, f"page: {path}  ({len(page.encode()) / 1024:,.0f} KiB; open it in a browser)")
    if serve:
        _serve(page.encode(), port, screen)
    return OK


def _is_model(target: str) -> bool:
    """Tell a model from a report and a mask: a folder, a GGUF file, or a known name."""
    from hitherto.model.loading.installed import is_known

    try:
        is_folder = Path(target).is_dir()
    except (OSError, ValueError):
        return False  # a mask's text may be no possible path
    return is_folder or target.endswith(".gguf") or is_known(target)


def _report_or_mask(target: str, length: int, keys: int | None, start: int | None) -> dict:
    if target.endswith(".json"):
        return _report(Path(target))
    return {"mask": _mask(target, length, keys, start)}


def _mask(text: str, length: int, keys: int | None, start: int | None) -> dict:
    if len(text) > MOST_TEXT:
        raise MaskError(
            explain("MASK", f"must have at most {MOST_TEXT:,} characters", f"{len(text):,}",
                    "write Segments.from_lengths([...]) instead of ids")
        )  # fmt: skip
    mask = read_mask(text)
    k_len = length if keys is None else keys
    if max(length, k_len) > MOST_LENGTH:
        raise MaskError(
            explain("--length", f"must be at most {MOST_LENGTH:,} on the page", max(length, k_len),
                    "use `hitherto show`, which has no such limit")
        )  # fmt: skip
    start = 0 if start is None and k_len < length else start
    q_start = bind_batch(mask, length, k_len, start).spans[0].q_start
    grid = {"text": str(mask), "queries": length, "keys": k_len, "start": q_start}
    if length * k_len > MOST_CELLS:
        return grid
    return grid | {"received": received(mask, length, k_len, q_start)}


def _report(path: Path) -> dict:
    from hitherto.audit.report import Report

    if path.stat().st_size > MOST_TEXT:
        raise ModelError(
            explain("REPORT", f"must be at most {MOST_TEXT >> 20} MiB", f"{path}",
                    "write it with `hitherto audit --json`")
        )  # fmt: skip
    report = Report.from_json(path.read_text(encoding="utf-8", errors="replace"))
    return {"audit": jsonlib.loads(report.to_json())}


def model_data(name: str, prompt: str | None, tokens: int, audit: bool, screen: Console) -> dict:
    """Let a model generate, measure its lesson, audit it: the data of three views."""
    from hitherto.cli.named import open_model
    from hitherto.cli.recording import Spelling, lesson, record
    from hitherto.cli.text import load_text, opening

    named = open_model(name, "float32")
    model, tokenizer = named.model.eval(), named.tokenizer
    text, _ = load_text(None)
    asked = tokenizer.encode(opening(text, 3) if prompt is None else prompt)
    if not asked:
        raise ModelError(explain("--prompt", "must not be empty", "''", "start a text"))
    sentence = tokenizer.encode(opening(text, 10))[:LESSON]
    spell = Spelling(tokenizer)
    with screen.status("recording"):
        data = {
            "generation": record(model, asked, tokens, spell, name),
            "training": lesson(model, sentence, spell, name),
        }
    if audit:
        data |= _audit(model, screen)
    return data


def _audit(model: "Decoder", screen: Console) -> dict:
    from hitherto.audit import audit as run_audit

    if model.num_parameters > SMALL:
        say(screen, "the audit of a model this large takes minutes: `hitherto audit` runs it alone")
        return {}
    with screen.status("auditing"):
        report = run_audit(model, model.masks, lengths=(AUDITED,))
    return {"audit": jsonlib.loads(report.to_json())}


def _write(path: Path, page: str) -> None:
    """Write the page; never over a file that is something else."""
    if path.exists() and not (path.is_file() and is_page(path.read_text(errors="replace"))):
        raise ModelError(
            explain("--out", "must be new, or a page that `hitherto explore` wrote", str(path),
                    "name another file")
        )  # fmt: skip
    path.write_text(page, encoding="utf-8")


def _serve(page: bytes, port: int, screen: Console) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.split("?")[0] == "/"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page) if found else 0))
            self.end_headers()
            try:
                self.wfile.write(page if found else b"")
            except ConnectionError:
                pass  # the browser was closed while it read

        def log_message(self, *said: object) -> None:
            """Keep the terminal quiet."""

    with ThreadingHTTPServer(("127.0.0.1", port), Page) as server:
        say(screen, f"serving http://127.0.0.1:{server.server_port}/  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say(screen, "\nended")
