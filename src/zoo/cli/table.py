"""What is imported only when it is asked for, so that `zoo --help` and `zoo list` need no torch."""

COMMANDS = {
    "list": ("zoo.cli.commands.listing:list_command", "Models and tasks that come with zoo, or its block registry."),
    "show": ("zoo.cli.commands.show:show", "A model's parts, size, cost, and where it can be exported to."),
    "pretrain": ("zoo.cli.commands.train:pretrain", "Train a model from scratch on a task."),
    "finetune": ("zoo.cli.commands.train:finetune", "Train a checkpoint further, on another task."),
    "evaluate": ("zoo.cli.commands.evaluate:evaluate", "Measure a checkpoint on a split of a task."),
    "predict": ("zoo.cli.commands.predict:predict", "Generate, fill masks, classify, translate, caption."),
    "attend": (
        "zoo.cli.commands.attend:attend",
        "Draw where a model looks: its attention weights on a text or a picture.",
    ),
    "export": ("zoo.cli.commands.export:export", "Write a checkpoint as a folder that plain transformers loads."),
    "push": ("zoo.cli.commands.push:push", "Export a checkpoint and publish it on the Hugging Face hub, all at once."),
    "import": ("zoo.cli.commands.import_:import_command", "Write a model of transformers as a run."),
    "tokenize": ("zoo.cli.commands.tokenize:tokenize", "Fill a task's token store ahead of a run, on all cores."),
    "check": (
        "zoo.cli.commands.check:check",
        "Say whether a run, a checkpoint, an export or a YAML file is whole, and what a task's data holds.",
    ),
}
TOGETHER = {"pretrain", "finetune", "tokenize"}  # several processes share their work; every other command needs one
COMMAND = "zoo.cli.command:run_command"
VERSION = "zoo:__version__"
BLOCKS = "zoo.cli.slots:every_option"  # of the registry, for `zoo list blocks`
