"""A process that fills shards for another one: `python -m zoo.data.store.worker REQUEST NUMBER COUNT`.

It plans the shards again from the request, so the two agree on their names, and imports only what tokenization needs.
"""

import sys

from zoo.data.ids import StoredFields
from zoo.data.processes import end_with_caller
from zoo.data.store.filling import FillRequest, plan
from zoo.data.store.store import PlannedShard, StoreRecipe, fill_shards
from zoo.data.tokenizers.tokenizer import Tokenizer


def plan_request(asked: FillRequest) -> list[PlannedShard]:
    """Plan the requested shards, each once, in the order of the data."""
    files = {name: content.encode() for name, content in asked.tokenizer.items()}
    recipe = StoreRecipe(StoredFields.parse(asked.stored), Tokenizer.from_files(files) if files else None)
    return list({shard.folder: shard for shard in plan(asked.rows(), recipe)}.values())


def main(request: str, number: str, count: str) -> None:
    """Create the missing shards; each of the `count` processes starts at a different one."""
    end_with_caller()
    asked = FillRequest.read(request)
    shards = plan_request(asked)
    first = int(number) * len(shards) // int(count)
    fill_shards("", [*shards[first:], *shards[:first]], None)


if __name__ == "__main__":
    main(*sys.argv[1:])
