"""Values of a step: logged tensors, norms, learning rates."""

import pytest
import torch
from watched_net import a_batch, train

from recorded_steps import steps_of
from trilens.sdk.pytorch import watch


def test_a_logged_tensor_is_what_it_was(recorder) -> None:
    recorder.begin_step()
    weight = torch.tensor(2.0, requires_grad=True)
    loss = weight * 3
    recorder.log({"loss": loss, "half": torch.tensor([1.5], dtype=torch.bfloat16), "n": torch.tensor(7)})
    with torch.no_grad():
        loss.fill_(100.0)
    recorder.end_step()
    (step,) = steps_of(recorder)
    assert step.values == {"loss": 6.0, "half": 1.5, "n": 7.0}


def test_a_tensor_that_is_no_number_is_counted(recorder) -> None:
    recorder.begin_step()
    recorder.log(
        {
            "a": torch.ones(3),
            "b": torch.tensor(1j),
            "c": torch.tensor(1.0),
            "d": torch.empty(1, device="meta"),
        }
    )
    recorder.end_step()
    (step,) = steps_of(recorder)
    assert step.values == {"c": 1.0}
    assert recorder.guard.counts() == {"value": 3}


def test_the_gradient_norm_is_computed_every_so_many_steps(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer, grad_norm_every=2)
    expected = []
    for _ in range(3):
        optimizer.zero_grad()
        model(a_batch()).square().mean().backward()
        expected.append(float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])))
        optimizer.step()
    values = [step.values.get("grad_norm") for step in steps_of(recorder)]
    assert values == [pytest.approx(expected[0]), None, pytest.approx(expected[2])]


def test_a_scaled_gradient_has_no_norm(recorder, model) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)  # takes the factor out by itself
    watch(recorder, model, optimizer, grad_norm_every=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(model(a_batch()).mean()).backward()
    scaler.step(optimizer)
    assert "grad_norm" not in steps_of(recorder)[0].values


def test_a_learning_rate_in_a_tensor_is_read(recorder, model) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25), capturable=False, foreach=False)
    watch(recorder, model, optimizer)
    train(model, optimizer, steps=1)
    assert steps_of(recorder)[0].values["lr"] == 0.25


def test_flops_of_a_token_are_six_for_each_parameter_when_asked(recorder, model) -> None:
    watch(recorder, model, flops="6N")
    assert recorder.flops_per_token == 6 * sum(p.numel() for p in model.parameters())
    watch(recorder, model, flops=123)
    assert recorder.flops_per_token == 123
