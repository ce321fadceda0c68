"""A chat in the terminal: the reply streams, Ctrl-C stops it, an empty line ends the conversation."""

import sys

import bantam


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: 11_chat.py MODEL")
    model = bantam.load(sys.argv[1])
    with bantam.Session(model) as session:
        for line in iter(lambda: input("> ") if sys.stdin.isatty() else sys.stdin.readline().strip(), ""):
            # Models that were not made for conversations have no template: they go on with the text.
            if model.tokenizer.chat_template:
                reply = session.chat([{"role": "user", "content": line}], max_tokens=200)
            else:
                reply = session.stream(line, max_tokens=40)
            try:
                for piece in reply:
                    print(piece, end="", flush=True)
            except KeyboardInterrupt:
                pass
            print(f"\n{reply.stats}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except bantam.Error as error:
        sys.exit(f"11_chat: {error}")
