"""Uses the service through a client generated from openapi.yaml, and checks that its answers have types.

    openapi-client.py URL KEY      (the generated package doppel_client is found by PYTHONPATH)
"""

import io
import json
import sys
import time

from doppel_client import AuthenticatedClient, models
from doppel_client.api.admin import get_task, list_tasks, start_reindex
from doppel_client.api.collections import get_collection, put_collection
from doppel_client.api.records import get_record, post_records_in_bulk, put_record
from doppel_client.api.search import check_row, explain_pair, list_similar_to_record
from doppel_client.types import File

LETTER = {"title": "四号桥护栏松动", "content": "清溪镇四号桥东侧的护栏松动已有半个月，放学时学生经过十分危险，望尽快派人加固。", "user": "王某"}
AGAIN = {"title": "再催四号桥护栏", "content": "清溪镇四号桥东侧的护栏松动已有半个月，放学时学生经过十分危险，至今无人处理。", "user": "王某"}
COLLECTION = "letters"


def row(fields):
    return models.Row.from_dict(fields)


def is_a(value, kind):
    assert isinstance(value, kind), f"{value!r} is no {kind.__name__}"
    return value


def settings():
    given = models.SettingsInput(
        preset=models.Preset.DEFAULT,
        channels=[models.SimhashChannel(scheme=models.SimhashChannelScheme.SIMHASH, radius=3), models.ShingleChannel.from_dict({"scheme": "shingle", "t": 0.0})],
    )
    return given


def register_and_ask(client):
    collection = is_a(put_collection.sync(COLLECTION, client=client, body=settings()), models.Collection)
    kinds = [type(channel) for channel in collection.settings.channels]
    assert kinds == [models.SimhashChannel, models.ShingleChannel], kinds
    assert collection.settings.channels[0].radius == 3

    first = is_a(put_record.sync(COLLECTION, "2024-001", client=client, body=row(LETTER)), models.Registration)
    assert (first.outcome, first.verdict, first.duplicate_of) == (models.Outcome.CREATED, models.VerdictKind.ORIGINAL, None)
    again = is_a(put_record.sync(COLLECTION, "2024-002", client=client, body=row(AGAIN)), models.Registration)
    assert (again.verdict, again.duplicate_of) == (models.VerdictKind.NEAR_DUPLICATE, "2024-001"), again
    assert again.similar[0].relation is models.Relation.REPEAT and again.took_us > 0

    stored = is_a(get_record.sync(COLLECTION, "2024-002", client=client), models.RecordView)
    assert (stored.seq, stored.row["title"]) == (2, AGAIN["title"])
    found = is_a(check_row.sync(COLLECTION, client=client, body=row(LETTER)), models.Check)
    assert found.duplicate and is_a(found.match, models.Match).id in ("2024-001", "2024-002")
    similar = is_a(list_similar_to_record.sync(COLLECTION, "2024-002", client=client, limit=5), models.SimilarList)
    assert [(is_a(one, models.Match).id, one.similarity > 0.3) for one in similar.similar] == [("2024-001", True)]

    pair = models.ExplainInput(a=models.SideInput(id="2024-001"), b=models.SideInput(row=row(AGAIN)))
    explained = is_a(explain_pair.sync(COLLECTION, client=client, body=pair), models.Explanation)
    assert explained.matches and is_a(explained.passages[0], models.Passage).chars > 10
    assert is_a(explained.diff[0], models.DiffPiece).kind in models.DiffKind
    assert is_a(explained.fingerprints, models.FingerprintComparison).distance >= 0


def load_in_bulk(client):
    rows = [{"id": f"b-{n}", "content": f"清溪镇{n}号楼的电梯停运三天，老人上下楼困难。"} for n in range(20)]
    lines = [json.dumps(one, ensure_ascii=False) for one in rows] + ["{"]
    body = File(payload=io.BytesIO("\n".join(lines).encode()))
    answer = is_a(post_records_in_bulk.sync(COLLECTION, client=client, body=body), File)
    answers = [json.loads(line) for line in answer.payload.read().splitlines()]
    kept = [models.BulkRegistered.from_dict(one) for one in answers[:-1]]
    assert [one.line for one in kept] == list(range(1, 21)) and kept[0].outcome is models.Outcome.CREATED
    refused = models.BulkRefused.from_dict(answers[-1])
    assert (refused.line, refused.status, refused.code) == (21, 400, "malformed_body")
    assert is_a(get_collection.sync(COLLECTION, client=client), models.Collection).records == 22


def follow_a_task(client):
    task = is_a(start_reindex.sync(client=client, body=models.ReindexInput(collection=COLLECTION)), models.Task)
    assert task.result is None and task.status in (models.TaskStatus.ENQUEUED, models.TaskStatus.PROCESSING)
    deadline = time.monotonic() + 60
    while task.finished_at is None and time.monotonic() < deadline:
        time.sleep(0.1)
        task = is_a(get_task.sync(task.id, client=client), models.Task)
    assert task.status is models.TaskStatus.SUCCEEDED, task
    assert task.result.additional_properties["records"] == 22, task.result
    assert task.id in [one.id for one in is_a(list_tasks.sync(client=client), models.TaskList).items]


def refuse(client):
    problem = is_a(get_record.sync(COLLECTION, "nobody", client=client), models.Problem)
    assert (problem.status, problem.code, problem.errors[0].pointer) == (404, "unknown_record", "/path/id")


def main():
    client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
    register_and_ask(client)
    load_in_bulk(client)
    follow_a_task(client)
    refuse(client)
    print("the generated client registers, checks, lists, explains, loads and follows a task")


if __name__ == "__main__":
    main()
