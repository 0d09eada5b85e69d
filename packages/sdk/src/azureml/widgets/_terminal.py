from runyard_sdk.follow import follow as follow_run


def follow(details):
    """Print status changes and log lines until the run ends; Ctrl-C only stops the showing."""
    run = details._run
    print("Run {} ({})".format(run.id, run.get_portal_url()))
    try:
        for event in follow_run(run._client, run.id):
            if event[0] == "status":
                print("-- {} {}".format(event[1], event[2] or "").rstrip())
            elif event[0] == "log":
                print(event[2], end="", flush=True)
    except KeyboardInterrupt:
        print("\nNo longer shown; the run goes on.")
        return
    summary(details)


def summary(details):
    """Print what is known of the run now."""
    data = details.get_widget_data()
    print("Run {}: {}".format(data["run_id"], data["status"]))
    print("Web View: {}".format(data["portal_url"]))
    if data["message"]:
        print(data["message"])
    for metric in data["run_metrics"]:
        print("  {}: {}".format(metric["name"], shown(metric["values"])))


def shown(values):
    """A metric in a few characters: its last value, and how many there are."""
    last = "{:.6g}".format(values[-1]) if isinstance(values[-1], float) else str(values[-1])
    return last if len(values) == 1 else "{} ({} values)".format(last, len(values))
