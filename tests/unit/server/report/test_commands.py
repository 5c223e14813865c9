"""Commands that repeat a run."""

import shlex

from server.report.commands import broken_over_lines, consilience_command, flwr_command


def test_the_commands_are_shell_and_say_every_key_that_was_set():
    config = {"scenario": "bc3e-heart", "protocol": "", "data": "it's here.csv", "seed": 3, "secure-aggregation": True}
    config |= {"resume-from": "/results/7", "bc3e.alpha": 1.0, "classes": ""}
    flwr = shlex.split(flwr_command(config, 4))
    assert flwr[:4] == ["flwr", "run", ".", "--stream"]
    assert 'data="it\'s here.csv"' in flwr
    assert "secure-aggregation=true" in flwr
    assert not any("resume-from" in word or "alpha" in word for word in flwr)
    assert flwr[-1] == "num-supernodes=4 client-resources-num-cpus=1"
    own = shlex.split(consilience_command(config, 4))
    assert own[:5] == ["consilience", "run", "bc3e-heart", "--sites", "4"]
    assert own[own.index("--data") + 1] == "it's here.csv"
    assert {"seed=3", "secure-aggregation=true", "classes="} <= set(own)
    for command in (flwr_command(config, 4), consilience_command(config, 4)):
        assert shlex.split(broken_over_lines(command).replace("\\\n", "")) == shlex.split(command)


def test_real_sites_have_no_simulation_in_their_command():
    for config in ({"protocol": "gp"}, {"scenario": "predict", "protocol": "", "from": "/r/7"}):
        assert "num-supernodes" not in flwr_command(config, 0)
        assert consilience_command(config, 0) == ""
    config = {"scenario": "bc3e-wine", "protocol": "gp", "data": "/d"}
    assert consilience_command(config, 4) == "consilience run --protocol gp --data /d"


def test_a_value_that_no_argument_can_carry_does_not_lose_the_run():
    assert "FILE.toml" in flwr_command({"scenario": "bc3e-wine", "protocol": "", "features": "a' \"b"}, 2)
