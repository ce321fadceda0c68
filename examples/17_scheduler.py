"""Replies to many prompts at once: lines of standard input, all in the same passes over the weights, as they end."""

import asyncio
import sys

import bantam


async def reply(scheduler, prompt):
    request = scheduler.submit(prompt, max_tokens=32, timeout=60.0)
    text = await request
    print(f"{prompt} | {text!r}, {request.stats.generated_tokens} tokens after {request.stats.waited_ms:.0f} ms of waiting")


async def main():
    if len(sys.argv) != 2:
        sys.exit("usage: 17_scheduler.py MODEL < PROMPTS")
    prompts = [line.strip() for line in sys.stdin if line.strip()]
    with bantam.Scheduler(sys.argv[1], context=512, parallel=8, queue=len(prompts)) as scheduler:
        await asyncio.gather(*(reply(scheduler, prompt) for prompt in prompts))
        print(f"{scheduler.stats.stepped_texts / max(1, scheduler.stats.steps):.1f} texts a step", file=sys.stderr)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except bantam.Error as error:
        sys.exit(f"17_scheduler: {error}")
