"""What a person can do, by place: one object per place does its actions, `registry.Commands` finds them."""
