"""What `runyard backup`, `restore`, `check` and `up --begin-anew` do to the files and the database of a home."""

from collections.abc import Callable
from pathlib import Path

from runyard.core.settings import Settings
from runyard.server.home_check import HomeCheck, HomeFinding
from runyard.server.lifecycle.process import without_service
from runyard.storage.backup.folder import BackupFolder
from runyard.storage.backup.restore import RestoreSummary, begin_anew, restore_backup
from runyard.storage.backup.snapshot import BackupSource, BackupSummary, take_backup
from runyard.storage.home import prepare_home

Report = Callable[[str, int, int], None]
"""Progress: the step, how many are done, how many there are."""


class HomeFiles:
    def __init__(self, settings: Settings) -> None:
        self._settings, self._home = settings, settings.home

    @property
    def has_data_here(self) -> bool:
        """Whether the workspaces' own datastores lie in the home."""
        return self._settings.operator_store is None

    def back_up(self, folder: Path, report: Report, *, with_data: bool, keep: int | None) -> BackupSummary:
        source = BackupSource(self._home, self._settings.database_url, has_data_here=self.has_data_here)
        return take_backup(source, BackupFolder(folder.absolute()), report, with_data=with_data, keep=keep)

    def restore(
        self, folder: Path, report: Report, *, name: str | None, replace: bool, leave_out_damaged: bool
    ) -> RestoreSummary:
        """Restore the backup of this name, else the newest. Raises Conflict while a service runs."""
        backups = BackupFolder(folder.absolute())
        backups.require()
        prepare_home(self._home)
        with without_service(self._home):
            return restore_backup(
                backups,
                self._home,
                self._settings.database_url,
                report,
                name=name,
                replace=replace,
                leave_out_damaged=leave_out_damaged,
            )

    def check(self, report: Report) -> list[HomeFinding]:
        return self._checked(report).check()

    def repair(self, report: Report, backups: Path | None) -> list[HomeFinding]:
        return self._checked(report).repair(BackupFolder(backups.absolute()) if backups else None)

    def begin_anew(self) -> str:
        """Move the files of a lost database aside; return their folder. Raises Conflict while a service runs."""
        with without_service(self._home):
            return begin_anew(self._settings)

    def _checked(self, report: Report) -> HomeCheck:
        return HomeCheck(self._settings, report, lambda: without_service(self._home))
