"""Checks every example in openapi.yaml against its schema."""

import yaml
from jsonschema import Draft202012Validator

document = yaml.safe_load(open("openapi.yaml", encoding="utf-8"))
checked, wrong = 0, []


def check(place, media):
    global checked
    if "example" not in media or "schema" not in media:
        return
    checked += 1
    validator = Draft202012Validator({**media["schema"], "components": document["components"]})
    wrong.extend(f"{place}: {error.json_path} {error.message}" for error in validator.iter_errors(media["example"]))


for path, item in document["paths"].items():
    for operation in item.values():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (media for body in bodies for media in body.get("content", {}).values()):
            check(operation["operationId"], media)

print("\n".join(wrong) or f"{checked} examples are as their schemas say")
raise SystemExit(bool(wrong))
