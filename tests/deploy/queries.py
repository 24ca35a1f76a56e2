"""Every query of a Grafana dashboard as a rule, so that promtool reads them."""

import json
import pathlib
import sys

dashboard = json.loads(pathlib.Path(sys.argv[1]).read_text())
assert dashboard["uid"] == "tokenrouter" and "id" not in dashboard, "importing makes the id"
ids = [panel["id"] for panel in dashboard["panels"]]
assert len(set(ids)) == len(ids), "two panels have one id"
rules = []
for panel in dashboard["panels"]:
    at = panel["gridPos"]
    assert at["x"] + at["w"] <= 24, panel["title"]
    for target in panel.get("targets", []):
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        expr = target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
        assert "$" not in expr, expr
        rules.append({"record": f"dashboard:panel_{panel['id']}:{target['refId'].lower()}", "expr": expr})
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
