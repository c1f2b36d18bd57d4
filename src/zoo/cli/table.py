"""Names that are imported only when they are needed, so that `zoo --help` and `zoo list` need no torch."""

COMMANDS = {
    "list": (
        "zoo.cli.commands.listing:list_command",
        "List the models and tasks that zoo ships, or all variants of blocks.",
    ),
    "show": ("zoo.cli.commands.show:show", "Show a model's settings, size and cost, and where you can export it to."),
    "pretrain": ("zoo.cli.commands.train:pretrain", "Train a model from scratch on a task."),
    "finetune": ("zoo.cli.commands.train:finetune", "Fine-tune a checkpoint on a task."),
    "evaluate": ("zoo.cli.commands.evaluate:evaluate", "Measure a checkpoint on a split of a task."),
    "predict": (
        "zoo.cli.commands.predict:predict",
        "Generate, fill masks, classify, tag, translate, caption or answer.",
    ),
    "attend": (
        "zoo.cli.commands.attend:attend",
        "Draw a model's attention weights on a text or an image.",
    ),
    "export": ("zoo.cli.commands.export:export", "Write a checkpoint as a folder that plain transformers loads."),
    "push": ("zoo.cli.commands.push:push", "Export a checkpoint and publish it on the Hugging Face Hub."),
    "import": ("zoo.cli.commands.import_:import_command", "Import a transformers checkpoint as a zoo run."),
    "tokenize": ("zoo.cli.commands.tokenize:tokenize", "Tokenize a task's data ahead of a run, on all cores."),
    "check": (
        "zoo.cli.commands.check:check",
        "Check a run, checkpoint, export or YAML file for damage and mistakes, or show what a task's data holds.",
    ),
}
MULTI_PROCESS = {"pretrain", "finetune", "tokenize"}  # several processes share the work; other commands need one
COMMAND = "zoo.cli.command:run_command"
VERSION = "zoo:__version__"
BLOCKS = "zoo.cli.slots:every_option"  # of the registry, for `zoo list blocks`
