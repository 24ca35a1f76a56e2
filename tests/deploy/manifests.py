"""What schemas do not tell of the manifests: that times and names fit together."""

import pathlib
import sys
import tomllib

import yaml

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "examples/deploy/kubernetes/base/tokenrouter.toml"
# The server closes connections for so long after its last answer.
CLOSING_S = 5


def check(file):
    objects = [one for one in yaml.safe_load_all(pathlib.Path(file).read_text()) if one]
    by_kind = {one["kind"]: one for one in objects}
    assert len(by_kind) == len(objects), "one of a kind"
    spec = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    drain = tomllib.loads(CONFIG.read_text())["server"]["drain_seconds"]
    wait = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] > wait + drain + CLOSING_S, "the drain is cut off"
    for probe, path in [("readinessProbe", "/ready"), ("startupProbe", "/ready"), ("livenessProbe", "/health")]:
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}, probe
    volumes = {volume["name"] for volume in spec["volumes"]}
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert volumes == mounts, (volumes, mounts)
    assert not any("subPath" in mount for mount in container["volumeMounts"]), "a subPath never changes"
    if config := by_kind.get("ConfigMap"):
        assert config["metadata"]["name"] == "tokenrouter-config", "a name without a hash"
        assert config["data"]["tokenrouter.toml"] == CONFIG.read_text()
    keeps = "--data-dir" in container["args"]
    assert keeps == ("PersistentVolumeClaim" in by_kind)
    assert not keeps or by_kind["Deployment"]["spec"]["replicas"] == 1, "a folder is for one process"
    print(f"{file}: {', '.join(sorted(by_kind))} fit together")


for name in sys.argv[1:]:
    check(name)
