from collections.abc import Callable
from pathlib import Path

from runyard.core.records.launch_plan import LaunchPlan
from runyard.core.records.runs import RunId
from runyard.node.file_watcher import FileChange, FileWatcher
from runyard.node.processes.event_loop import now
from runyard.node.shipping.artifact_uploader import ArtifactUploader, UploadItem, is_uploadable, upload_items_below
from runyard.node.shipping.report_queue import ReportQueue
from runyard.node.task_folder import OUTPUTS, TaskFolder, has_shared_outputs, make_outputs_folder

_AFTER_CLOSE, _AFTER_WRITE, _AFTER_SENT = 0.02, 1.0, 2.0
_RESCAN_SECONDS = 5.0
_WRITTEN = FileChange.CLOSE_WRITE | FileChange.MOVED_TO
LOGS = "logs"


class OutputWatcher:
    """Watches the files that a run writes, and queues them for sending: logs, journals, uploads, ./logs, ./outputs."""

    def __init__(
        self, folder: TaskFolder, plan: LaunchPlan, watcher: FileWatcher, queue: ReportQueue, uploader: ArtifactUploader
    ) -> None:
        self._folder, self._plan, self._run_id = folder, plan, plan.run_id
        self._logs_of_node = f"{LOGS}/node_{plan.node}" if plan.node else LOGS
        """Each node has its own folder: two nodes must not append to one log."""
        self._watcher, self._queue, self._uploader = watcher, queue, uploader
        self._due: dict[Path, float] = {}
        self._queued: set[Path] = set()
        self._flushes: list[tuple[Path, Callable[[], bool]]] = []
        self._rescan_at = 0.0

    def watch(self) -> None:
        """Begin to watch. Existing files are found too."""
        (self._folder.work / LOGS).mkdir(exist_ok=True)
        make_outputs_folder(self._folder, self._plan)
        self._watcher.watch_folder(self._folder.std, self._std_changed)
        self._watcher.watch_folder(self._folder.journals, self._journal_changed)
        self._watcher.watch_folder(self._folder.work, self._work_changed)
        self._watcher.watch_tree(self._folder.uploads, self._upload_changed)
        self._watcher.watch_tree(self._folder.work / LOGS, self._log_changed)
        if not has_shared_outputs(self._folder):
            self._watcher.watch_tree(self._folder.work / OUTPUTS, self._output_changed)

    def seconds_to_next(self) -> float | None:
        """Seconds until `hand_over` has something to do; None until something changes."""
        times = list(self._due.values())
        if not self._watcher.is_whole:
            times.append(self._rescan_at)
        return max(0.0, min(times) - now()) if times else None

    def hand_over(self) -> None:
        """Queue files that are no longer written to, and answer flush requests whose files have been sent."""
        if self._watcher.missed or (not self._watcher.is_whole and now() >= self._rescan_at):
            self._watcher.missed = False
            self._rescan_at = now() + _RESCAN_SECONDS
            self.sweep()
        for name in self._queue.logs.rewritten:
            self._due[self._folder.work / LOGS / name.removeprefix(f"{self._logs_of_node}/")] = now()
        self._queue.logs.rewritten.clear()
        settled = [path for path, due in self._due.items() if due <= now()]
        for path in settled:
            del self._due[path]
        self._queued.update(settled)
        self._uploader.enqueue([self._upload_item(path) for path in settled if is_uploadable(path, self._folder.work)])
        self._answer_flushes()

    def sweep(self) -> None:
        """Scan all folders and queue everything, whatever inotify reported."""
        for path in self._folder.std.iterdir():
            self._std_changed(path, FileChange.MODIFY)
        for path in self._folder.journals.iterdir():
            self._journal_changed(path, FileChange.FOUND)
        for item in upload_items_below(self._run_id, self._folder.work, LOGS):
            self._log_changed(item.file, FileChange.MODIFY)
        self._uploader.enqueue(
            [self._upload_item(path) for path in self._due if is_uploadable(path, self._folder.work)]
        )
        self._due.clear()
        if not has_shared_outputs(self._folder):
            self._uploader.enqueue(list(upload_items_below(self._run_id, self._folder.work, OUTPUTS)))
        uploads = self._folder.uploads
        for place in uploads.iterdir():
            self._uploader.enqueue(
                list(upload_items_below(RunId(place.name), place, ".", remove_after=True, within=uploads))
            )

    def _std_changed(self, path: Path, change: FileChange) -> None:
        self._queue.logs.files.changed(f"azureml-logs/{path.name}", path)

    def _journal_changed(self, path: Path, change: FileChange) -> None:
        if not path.name.startswith("flush-"):
            self._queue.journals.changed(path)
        elif change & (FileChange.CREATE | FileChange.FOUND) and path not in [flush for flush, _ in self._flushes]:
            self._begin_flush(path)

    def _work_changed(self, path: Path, change: FileChange) -> None:
        """Watch ./outputs or ./logs again: a script may remove and recreate them."""
        if path.name == OUTPUTS and change & FileChange.FOLDER:
            self._watcher.watch_tree(path, self._output_changed)
        elif path.name == LOGS and change & FileChange.FOLDER:
            self._watcher.watch_tree(path, self._log_changed)

    def _log_changed(self, path: Path, change: FileChange) -> None:
        name = f"{self._logs_of_node}/{path.relative_to(self._folder.work / LOGS).as_posix()}"
        known = self._queue.logs.files.find(name)
        if known is not None and known.was_rewritten:
            self._output_changed(path, change)
        elif known is not None or is_uploadable(path, self._folder.work):
            self._queue.logs.files.changed(name, path, self._folder.work)

    def _output_changed(self, path: Path, change: FileChange) -> None:
        first_wait = _AFTER_CLOSE if change & _WRITTEN else _AFTER_WRITE
        self._due[path] = now() + (_AFTER_SENT if path in self._queued else first_wait)

    def _upload_changed(self, path: Path, change: FileChange) -> None:
        if change & (FileChange.MOVED_TO | FileChange.FOUND) and is_uploadable(path, self._folder.uploads):
            self._uploader.enqueue([self._upload_item(path)])

    def _upload_item(self, path: Path) -> UploadItem:
        if path.is_relative_to(self._folder.uploads):
            uploads = self._folder.uploads
            run_id, *rest = path.relative_to(uploads).parts
            return UploadItem(RunId(run_id), uploads / run_id, "/".join(rest), remove_after=True, within=uploads)
        name = path.relative_to(self._folder.work).as_posix()
        of_logs = name.startswith(f"{LOGS}/")
        other_name = name.replace(LOGS, self._logs_of_node, 1) if of_logs and self._logs_of_node != LOGS else ""
        return UploadItem(self._run_id, self._folder.work, name, other_name=other_name)

    def _begin_flush(self, path: Path) -> None:
        self._flushes.append((path, lambda: False))
        self.sweep()
        self._flushes.pop()
        logs, journals = self._queue.logs.files, self._queue.journals.files
        log_marks, journal_marks = logs.marks(), journals.marks()
        self._flushes.append((path, lambda: logs.reached(log_marks) and journals.reached(journal_marks)))

    def _answer_flushes(self) -> None:
        for flush in list(self._flushes):
            path, is_reached = flush
            if self._uploader.is_idle and is_reached():
                path.unlink(missing_ok=True)
                self._flushes.remove(flush)
