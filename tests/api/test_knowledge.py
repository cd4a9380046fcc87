"""Tables and documents through HTTP: looked at, queried, changed, exported, imported, taken in."""

from __future__ import annotations

import json
from typing import Any

from memory.files import MAX_FILE_BYTES
from tests.support.api import Api, StartApi, as_person, as_service
from tests.support.loop_model import LoopModel
from tests.support.sse import Stream

CSV = 'name,city,days,since\nNordwind,Kiel,30,2021-05-01\n"Lumen, Oslo",Oslo,14,2023-01-15\nBrenta,,45,\n'
TABLE = "/v1/knowledge/tables/Suppliers"


async def change(a: Api, who: dict[str, str], kind: str, destination: str = "personal", **fields: Any) -> Any:
    body = {"change": {"kind": kind, **fields}, "destination": destination}
    return await a.http.post("/v1/knowledge/changes", json=body, headers=who)


async def test_a_table_goes_in_is_asked_changed_and_comes_out(api: StartApi) -> None:
    async with api(workers=False) as a:
        ann, bob = a.stack.user("ann"), a.stack.user("bob")
        me = as_person(ann)
        put = {**me, "Content-Type": "text/csv", "Idempotency-Key": "suppliers-1"}
        imported = await a.http.post(f"{TABLE}/import?description=Who delivers", content=CSV, headers=put)
        assert imported.json() == {"table": "Suppliers", "added": 3}, imported.text
        assert (await a.http.post(f"{TABLE}/import", content=CSV, headers=put)).json()["added"] == 0

        tables = (await a.http.get("/v1/knowledge/tables", headers=me)).json()["items"]
        (table,) = [one for one in tables if one["name"] != "Contacts"]
        assert (table["name"], table["source"], table["description"]) == ("Suppliers", "personal", "Who delivers")
        assert table["columns"] == {"row_id": "int", "name": "str", "city": "str", "days": "int", "since": "date"}
        walked: list[int] = []
        cursor = None
        while True:
            query = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
            page = (await a.http.get(f"{TABLE}/rows", params=query, headers=me)).json()
            walked += [row["row_id"] for row in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert walked == [2, 1, 0]
        found = await a.http.post(f"{TABLE}/query", json={"where": "days > 20 and city is not None"}, headers=me)
        assert [(row["name"], row["_source"]) for row in found.json()["items"]] == [("Nordwind", "personal")]
        wrong = await a.http.post(f"{TABLE}/query", json={"where": "__import__('os')"}, headers=me)
        assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/invalid-input")

        # Out and in again, in both forms, it is the same table.
        csv = await a.http.get(f"{TABLE}/export", headers=me)
        assert csv.headers["content-type"].startswith("text/csv")
        assert csv.headers["content-disposition"] == "attachment; filename*=UTF-8''Suppliers.csv"
        assert csv.text.splitlines()[0] == "row_id,name,city,days,since"
        rows = (await a.http.get(f"{TABLE}/export?format=json", headers=me)).json()
        assert rows[2] == {"row_id": 2, "name": "Brenta", "city": None, "days": 45, "since": None}
        for name, content, kind in (("FromCsv", csv.text, "text/csv"), ("FromJson", json.dumps(rows), "application/json")):
            place = f"/v1/knowledge/tables/{name}"
            again = await a.http.post(f"{place}/import", content=content, headers={**me, "Content-Type": kind})
            assert again.json()["added"] == 3, again.text
            assert (await a.http.get(f"{place}/export?format=json", headers=me)).json() == rows
        for content, kind, status in (("x", "text/plain", 415), ("{}", "application/json", 400), ("", "text/csv", 400)):
            refused = await a.http.post(f"{TABLE}/import", content=content, headers={**me, "Content-Type": kind})
            assert refused.status_code == status, refused.text
        empty = await change(a, me, "create_table", name="Empty")
        assert empty.status_code == 200, empty.text
        assert (await a.http.get("/v1/knowledge/tables/Empty/export?format=json", headers=me)).json() == []

        # Changes without a loop, each once by its key.
        keyed = {**me, "Idempotency-Key": "add-1"}
        added = await change(a, keyed, "add_rows", table="Suppliers", rows=[{"name": "Aquila", "days": 7}])
        assert added.json() == {"result": {"outcome": "rows added successfully", "details": {"length": 1}}}
        assert (await change(a, keyed, "add_rows", table="Suppliers", rows=[{"name": "Aquila", "days": 7}])).json() == added.json()
        other = await change(a, keyed, "add_rows", table="Suppliers", rows=[{"name": "Otto"}])  # the key names a call with its body
        assert other.json()["result"]["details"] == {"length": 1}
        assert (await change(a, me, "update_rows", table="Suppliers", updates={"4": {"days": 8}})).status_code == 200
        assert (await change(a, me, "rename_column", table="Suppliers", old_name="days", new_name="lead_days")).status_code == 200
        newest = (await a.http.get(f"{TABLE}/rows?limit=1", headers=me)).json()["items"][0]
        assert (newest["row_id"], newest["name"], newest["lead_days"]) == (4, "Otto", 8)
        for status, kind, fields in (
            (422, "drop_database", {}),
            (422, "rename_table", {"old_name": "Suppliers"}),
            (422, "rename_table", {"old_name": "Suppliers", "new_name": "X", "user": "bob"}),
            (400, "rename_table", {"old_name": "Nothing", "new_name": "X"}),
            (400, "add_rows", {"table": "Suppliers", "rows": [{"lead_days": "soon"}]}),
            (400, "update_rows", {"table": "Suppliers", "updates": {"99": {"name": "x"}}}),
            (400, "add_rows", {"table": "Suppliers", "rows": [{"name": "x"}], "destination": "team:others"}),
        ):
            destination = fields.pop("destination", "personal")
            refused = await change(a, me, kind, str(destination), **fields)
            assert refused.status_code == status, refused.text

        # Nobody else sees it, and who may only read does not write.
        for stranger in (as_person(bob), as_service("umbrella", ann.user_id)):
            for method, path in (("GET", "/rows"), ("GET", "/export"), ("POST", "/query")):
                body = {} if method == "POST" else None
                assert (await a.http.request(method, TABLE + path, json=body, headers=stranger)).status_code == 404
        reads = as_service("acme", ann.user_id, permissions=("read",))
        assert (await a.http.get(f"{TABLE}/rows", headers=reads)).status_code == 200
        assert (await change(a, reads, "delete_tables", tables=["Suppliers"])).status_code == 403


async def test_a_document_is_taken_in_part_by_part_and_once(api: StartApi) -> None:
    async with api(model=LoopModel(["Taken in."])) as a:
        me = as_person(a.stack.user())

        async def upload(name: str, data: bytes, **form: str) -> list[Any]:
            files = {"file": (name, data)}
            async with a.http.stream("POST", "/v1/knowledge/documents", files=files, data=form, headers=me) as response:
                assert response.status_code == 200, (response.status_code, await response.aread())
                return await Stream(response).rest()

        for rows, skipped in ((3, 0), (0, 3)):
            part, end = await upload("suppliers.csv", CSV.encode())
            assert (part.name, part.data["rows"], part.data["skipped"], part.data["table"]) == ("part", rows, skipped, "Suppliers")
            assert (end.name, end.data) == ("end", {"parts": 1, "rows": rows, "failed": 0, "problem": None})
        part, end = await upload("notes.md", b"# Notes\n\nLumen delivers within 14 days.\n", destination="personal")
        assert (part.data["state"], part.data["ok"], end.data["failed"]) == ("done", True, 0)
        loop = (await a.http.get(f"/v1/loops/{part.data['loop_id']}", headers=me)).json()
        assert (loop["operation"], loop["state"]) == ("knowledge.update", "done")

        async def refused(name: str, data: bytes, who: dict[str, str] = me, **form: str) -> int:
            answer = await a.http.post("/v1/knowledge/documents", files={"file": (name, data)}, data=form, headers=who)
            assert answer.headers["content-type"] == "application/problem+json"
            return answer.status_code

        assert await refused("program.exe", b"MZ") == 400
        assert await refused("empty.pdf", b"") == 400
        assert await refused("damaged.pdf", b"%PDF-1.7 and no more") == 400
        assert await refused("notes.md", b"x", destination="team:others") == 400
        assert await refused("large.txt", b"x" * (MAX_FILE_BYTES + 1)) == 413
        assert await refused("notes.md", b"x", who={}) == 401
        reads = as_service("acme", "somebody", permissions=("read",))
        assert await refused("notes.md", b"x", who=reads) == 403
        raw = await a.http.post("/v1/knowledge/documents", content=b"x", headers=me)
        assert raw.status_code == 415
        bare = await a.http.post("/v1/knowledge/documents", data={"destination": "personal"}, files={"other": b"x"}, headers=me)
        assert bare.status_code == 400
