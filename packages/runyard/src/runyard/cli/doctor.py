from dataclasses import asdict

import typer

from runyard.cli.connection import home
from runyard.cli.distribution import examine_distribution
from runyard.cli.environments.examination import examine_environments
from runyard.cli.exits import Exit
from runyard.cli.machine import examine
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.model.findings import Finding, Level


def doctor(output: FormatOption = Format.TEXT) -> None:
    """Tell what this machine has and lacks. Exit code 1 when runs cannot work here."""
    findings = [*examine(home()), *examine_environments(home()), *examine_distribution()]
    if output is Format.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [[f.part, f.level, f.found] for f in findings]
        print_table(["part", "state", "found"], rows, nothing="")
        _print_remedies(findings)
    if any(finding.level is Level.BROKEN for finding in findings):
        raise typer.Exit(Exit.NO)


def _print_remedies(findings: list[Finding]) -> None:
    for finding in findings:
        if finding.remedy:
            print(f"\n{finding.part}: {finding.remedy}")
