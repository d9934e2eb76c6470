"""A report as plain text for the terminal."""

from hitherto.audit.report import Finding, Report


def spell(finding: Finding) -> str:
    """Return a finding in a few lines."""
    where = f", module {finding.module}" if finding.module else ""
    head = f"{finding.kind}: {finding.cause}{where}"
    pair = f", output {finding.pair[0]} by input {finding.pair[1]}" if finding.pair else ""
    size = f", size {finding.size:.2g}" if finding.size else ""
    lines = [
        head,
        f"  {finding.mode}, length {finding.length}{pair}{size} (probe: {finding.probe})",
    ]
    lines += [f"  measured: {finding.detail}"] if finding.detail else []
    lines.append(f"  next: {finding.next_step}")
    again = [f"    {line}" for line in finding.reproducer.splitlines()]
    return "\n".join([*lines, "  again, from `model`:", *again] if again else lines)


def text(report: Report) -> str:
    """Return the whole report."""
    head = f"{report.subject}, declared {report.declared}: {report.verdict}"
    lines = [head]
    for finding in report.findings:
        lines += ["", spell(finding)]
    lines += ["", *(f"covered: {line}" for line in report.covered)]
    lines += [f"not covered: {what} ({why})" for what, why in report.not_covered]
    cost = f"{report.forwards} forwards, {report.seconds:.1f} s, seed {report.seed}"
    return "\n".join([*lines, cost])
