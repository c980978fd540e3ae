#!/usr/bin/env python3
"""Codex rollouts and Claude Code sessions -> message arrays in OpenAI's form, one session per line.

usage: sessions.py TRAJECTORIES OUT

A reader for this measurement only: one turn is one message id (Claude Code), or what stands between
two groups of results (Codex). What people typed is a user message; a harness's own texts are kept,
since telling them apart is what is measured. Sessions have no labels: nobody says which succeeded.
"""
import glob, gzip, json, os, sys


def lines(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', errors='replace') as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                pass


def text(content):
    if isinstance(content, str):
        return content
    parts = [p.get('text') or '' for p in content or [] if isinstance(p, dict)]
    return '\n'.join(part for part in parts if part)


def turn(messages, fresh):
    """the assistant message that what comes next belongs to"""
    if fresh or not messages or messages[-1]['role'] != 'assistant':
        messages.append({'role': 'assistant', 'content': '', 'tool_calls': []})
    return messages[-1]


def call(at, key, name, arguments):
    at['tool_calls'].append(
        {'id': key, 'type': 'function', 'function': {'name': name, 'arguments': arguments}})


def codex(path):
    messages, model = [], None
    for line in lines(path):
        item, kind = line.get('payload') or {}, line.get('type')
        if kind == 'turn_context':
            model = item.get('model') or model
        if kind != 'response_item':
            continue
        what = item.get('type')
        if what == 'message' and item.get('role') == 'assistant':
            turn(messages, False)['content'] += text(item.get('content'))
        elif what == 'message' and item.get('role') == 'user':
            messages.append({'role': 'user', 'content': text(item.get('content'))})
        elif what == 'function_call':
            call(turn(messages, False), item['call_id'], item['name'], item['arguments'])
        elif what == 'custom_tool_call':
            arguments = json.dumps({'input': item.get('input')})
            call(turn(messages, False), item['call_id'], item['name'], arguments)
        elif what in ('function_call_output', 'custom_tool_call_output'):
            output = item.get('output')
            output = output if isinstance(output, str) else json.dumps(output)
            messages.append({'role': 'tool', 'tool_call_id': item['call_id'], 'content': output})
    return model, messages


def claude(path):
    messages, model, seen, last = [], None, set(), None
    for line in lines(path):
        message = line.get('message')
        if line.get('uuid') in seen or not isinstance(message, dict):
            continue
        seen.add(line.get('uuid'))
        content = message.get('content')
        if line.get('type') == 'assistant' and message.get('model') != '<synthetic>':
            model = message.get('model') or model
            at = turn(messages, message.get('id') != last)
            last = message.get('id')
            for block in content if isinstance(content, list) else []:
                if block.get('type') == 'text':
                    at['content'] += block.get('text') or ''
                elif block.get('type') == 'tool_use':
                    call(at, block['id'], block['name'], json.dumps(block.get('input')))
        elif line.get('type') == 'user' and not line.get('isMeta'):
            blocks = content if isinstance(content, list) else [{'type': 'text', 'text': content}]
            said = []
            for block in blocks:
                if block.get('type') == 'tool_result':
                    result = {'role': 'tool', 'tool_call_id': block['tool_use_id'],
                              'content': text(block.get('content'))}
                    if block.get('is_error'):
                        result['is_error'] = True
                    messages.append(result)
                elif block.get('type') == 'text':
                    said.append(block.get('text') or '')
            if said:
                messages.append({'role': 'user', 'content': '\n'.join(said)})
    return model, messages


def main():
    source, out = sys.argv[1:]
    for name, read, patterns in (
        ('codex', codex, ['codex-*/*.jsonl*']),
        ('claude-code', claude, ['claude-*/*.jsonl*']),
    ):
        paths = sorted(p for pattern in patterns for p in glob.glob(f'{source}/{pattern}'))
        with open(f'{out}/{name}.jsonl', 'w') as file:
            for number, path in enumerate(paths):
                model, messages = read(path)
                session = {'id': f'{name}-{number:06d}', 'model': model, 'messages': messages}
                file.write(json.dumps(session) + '\n')
        print(name, len(paths), 'sessions', file=sys.stderr)


if __name__ == '__main__':
    main()
