// The tour itself: `node tour.cjs SOFTLAND SERVERS WORK`. The model is a script of `softland sim`, so
// that it makes the calls that are written here; what is checked are the events of the run, what
// went between client and server, and which processes are left.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const [softland, servers, work] = process.argv.slice(2);
const EVERYTHING = path.join(servers, 'server-everything/dist');
const FILES = path.join(servers, 'server-filesystem/dist/index.js');
const KEY = 'key-that-no-server-may-see';
const ANSWER = 'The tour is over.';
const PATIENCE = 90_000;
// Stands in the environment of every server, so that those that are left are found.
const MARK = `SOFTLAND_TOUR=${work}`;

// The folder that is served.
const place = path.join(fs.realpathSync(work), 'place');
fs.mkdirSync(place);

// --- checks

let [passed, failed] = [0, 0];
function check(name, holds, seen) {
  holds ? (passed += 1) : (failed += 1);
  console.log(`  ${holds ? 'ok    ' : 'FAILED'}  ${name}`);
  if (!holds) console.log(`          ${JSON.stringify(seen)?.slice(0, 1500)}`);
}

async function until(what, probe) {
  for (const began = Date.now(); Date.now() - began < PATIENCE; ) {
    const found = await probe();
    if (found) return found;
    await new Promise((resume) => setTimeout(resume, 20));
  }
  throw new Error(`${what}: not within ${PATIENCE / 1000} s`);
}

// The numbers of all processes with the mark, but for those that have ended.
function marked() {
  return fs.readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return fs.readFileSync(`/proc/${name}/environ`, 'utf8').split('\0').includes(MARK);
    } catch {
      return false;
    }
  });
}

const read = (file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '');

// --- programs

const started = new Set();
function start(command, args, env) {
  const child = spawn(command, args, {
    cwd: work,
    env: { PATH: process.env.PATH, HOME: work, XDG_STATE_HOME: work, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.said = { out: '', err: '' };
  child.stdout.on('data', (text) => (child.said.out += text));
  child.stderr.on('data', (text) => (child.said.err += text));
  child.done = new Promise((done) => {
    child.on('error', () => done(null));
    child.on('close', (code) => done(code));
  });
  started.add(child);
  child.done.then(() => started.delete(child));
  return child;
}

async function end(child) {
  child.kill('SIGKILL');
  await child.done;
}

// Waits for what a program says when it listens; gives what the pattern's group finds.
async function listening(child, pattern) {
  const found = await until('a server listens', () => {
    if (child.exitCode !== null) throw new Error(`it has ended: ${child.said.err}`);
    return pattern.exec(child.said.err);
  });
  return found[1];
}

// The server over HTTP. It would listen on every address; here it gets the loopback and a free port.
async function httpServer() {
  const code = `
    const { Server } = require('node:net');
    const listen = Server.prototype.listen;
    Server.prototype.listen = function (_port, ready) {
      this.on('listening', () => console.error('at port ' + this.address().port));
      return listen.call(this, 0, '127.0.0.1', ready);
    };
    import(${JSON.stringify(path.join(EVERYTHING, 'transports/streamableHttp.js'))});`;
  const child = start(process.execPath, ['-e', code], {});
  child.port = await listening(child, /at port (\d+)/);
  return child;
}

// A server over stdio that leaves its number and what it says in files, and what it hears: not so
// one that is to be killed, since what writes that down would live on.
function overStdio(name, args, more = {}, hears = true) {
  const at = (kind) => `"${path.join(work, `${name}.${kind}`)}"`;
  const server = `{ sh -c 'echo $$ > "$0"; exec "$@"' ${at('pid')} "$@"; }`;
  const script = `${hears ? `tee ${at('heard')} | ` : ''}${server} | tee ${at('said')}`;
  return {
    command: 'sh',
    args: ['-c', script, 'sh', process.execPath, ...args],
    env: { SOFTLAND_TOUR: work, GIVEN: '${GIVEN:-this}' },
    ...more,
  };
}

// The same as its users start it.
const plainly = (args, more = {}) => ({
  command: process.execPath,
  args,
  env: { SOFTLAND_TOUR: work },
  ...more,
});

// --- runs

let runs = 0;
// Starts a run of an agent that has all tools of `server` and whose model makes these calls, one a
// turn. `ended` gives its exit status, its results, its answer and what stays behind.
async function begin(server, calls, tools = 'mcp__s') {
  const at = path.join(work, `run-${(runs += 1)}`);
  const turns = calls.map(
    ([tool, input]) =>
      `[[turn]]\n[[turn.call]]\ntool = "mcp__s__${tool}"\nraw = '${JSON.stringify(input)}'\n`,
  );
  fs.writeFileSync(`${at}.toml`, `${turns.join('\n')}\n[[turn]]\ntext = "${ANSWER}"\n`);
  fs.writeFileSync(`${at}.md`, `---\nname: a\ndescription: d\ntools: ${tools}\n---\nGo.\n`);
  fs.writeFileSync(`${at}.json`, JSON.stringify({ mcpServers: { s: server } }));
  const sim = start(softland, ['sim', '--listen', '127.0.0.1:0', '--scenario', `${at}.toml`], {});
  const address = await listening(sim, /listening on (http:\S+)/);
  const flags = ['--format', 'json', '--model', 'anthropic/claude-sonnet-5-5'];
  const args = ['run', `${at}.md`, 'go', '--mcp', `${at}.json`, '--base-url', address, ...flags];
  args.push('--root', place);
  const run = start(softland, args, { ANTHROPIC_API_KEY: KEY });
  const ended = run.done.then(async (status) => {
    await end(sim);
    const events = run.said.out.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    const results = events.filter((one) => one.event === 'tool_result');
    const last = events.at(-1);
    const left = await until('servers end', () => !marked().length).then(() => [], marked);
    return { status, err: run.said.err, events, results, last, left, file: `${at}.json` };
  });
  return { run, ended };
}

const whole = async (...given) => (await begin(...given)).ended;

// Whether a run came to the answer of its model, with so many results, and nothing is left.
function checkEnd(name, seen, results) {
  const answered = seen.status === 0 && seen.last?.answer === ANSWER && seen.last.answered_by === 'model';
  check(`${name}: the run ends in the model's answer`, answered, [seen.status, seen.err, seen.last]);
  check(`${name}: each call has a result`, seen.results.length === results, seen.results);
  check(`${name}: no process is left`, seen.left.length === 0, seen.left);
}

function checkResult(name, result, ok, pattern) {
  check(name, result?.ok === ok && pattern.test(result.content), result);
}

// --- the tour

const LONG = ['trigger-long-running-operation', { duration: 1, steps: 5 }];
const FOREVER = ['trigger-long-running-operation', { duration: 600, steps: 6000 }];
const TOOLS = [
  ['echo', { message: 'hello' }, true, /^Echo: hello$/],
  ['get-sum', { a: 20, b: 22 }, true, /sum of 20 and 22 is 42/],
  [...LONG, true, /operation completed\. Duration: 1 seconds, Steps: 5/],
  ['get-tiny-image', {}, true, /\[an image, image\/png, [\d,]+ bytes, cannot be shown\]/],
  ['get-structured-content', { location: 'Chicago' }, true, /"temperature":36/],
  ['get-resource-links', { count: 2 }, true, /demo:\/\/resource/],
  ['get-resource-reference', { resourceType: 'Text', resourceId: 1 }, true, /demo:\/\/resource/],
  ['get-resource-reference', { resourceType: 'Text', resourceId: -1 }, false, /resourceId/],
  ['get-sum', { a: 'twenty', b: 22 }, false, /a\b/],
];

async function tools(name, server) {
  const seen = await whole(server, TOOLS.map(([tool, input]) => [tool, input]));
  TOOLS.forEach(([tool, input, ok, pattern], at) => {
    const what = `${name}: ${tool} ${JSON.stringify(input)}${ok ? '' : ' is a failed result'}`;
    checkResult(what, seen.results[at], ok, pattern);
  });
  checkEnd(name, seen, TOOLS.length);
}

async function everything() {
  const name = 'everything over stdio';
  await tools(name, overStdio('tools', [path.join(EVERYTHING, 'index.js'), 'stdio']));
  const said = read(path.join(work, 'tools.said'));
  check(`${name}: its tools are asked for once`, said.match(/"tools":\[/g)?.length === 1, said);
  const progress = said.match(/notifications\/progress/g)?.length;
  check(`${name}: a long operation tells its progress`, progress === 5, progress);

  const plain = plainly([path.join(EVERYTHING, 'index.js'), 'stdio']);
  const env = await whole({ ...plain, env: { ...plain.env, GIVEN: '${NOT_SET:-this}' } }, [
    ['get-env', {}],
  ]);
  const shown = env.results[0]?.content ?? '';
  check(`${name}: it has the variables that it is given`, /"GIVEN": "this"/.test(shown), shown);
  const leaks = shown.includes(KEY) || shown.includes('XDG_STATE_HOME');
  check(`${name}: no key and no other variable leaks`, shown !== '' && !leaks, shown);
  checkEnd(`${name}, as its users start it`, env, 1);

  const wrong = await whole(plain, [], 'mcp__s__ecko');
  check(
    `${name}: a tool that it has not is refused before a model is asked`,
    wrong.status === 2 && wrong.err.includes('mcp__s__echo') && wrong.left.length === 0,
    [wrong.status, wrong.err],
  );
}

async function givenUp() {
  const args = [path.join(EVERYTHING, 'index.js'), 'stdio'];
  const late = await whole(overStdio('late', args, { timeout: 3000 }), [FOREVER, TOOLS[0]]);
  checkResult('a call that takes too long is a failed result', late.results[0], false, /within 3 s/);
  checkResult('the server is of use after it', late.results[1], true, /^Echo: hello$/);
  const heard = read(path.join(work, 'late.heard'));
  check('the server is told that the call is given up', heard.includes('notifications/cancelled'), heard);
  checkEnd('a call that takes too long', late, 2);

  const { run, ended } = await begin(overStdio('stopped', args, {}, false), [FOREVER]);
  await until('the call is under way', () => read(`${work}/stopped.said`).includes('/progress'));
  run.kill('SIGINT');
  const stopped = await ended;
  check('Ctrl-C in a call ends the run', stopped.status === 130, [stopped.status, stopped.err]);
  check('Ctrl-C in a call: no process is left', stopped.left.length === 0, stopped.left);
}

async function overHttp() {
  const name = 'everything over HTTP';
  const server = await httpServer();
  const at = { type: 'http', url: `http://127.0.0.1:${server.port}/mcp` };
  await tools(name, at);
  const ended = /session termination request/.test(server.said.out);
  check(`${name}: its session is ended`, ended, server.said);
  const late = await whole({ ...at, timeout: 3000 }, [FOREVER, TOOLS[0]]);
  checkResult(`${name}: a call that takes too long`, late.results[0], false, /within 3 s/);
  checkResult(`${name}: it is of use after it`, late.results[1], true, /^Echo: hello$/);

  const before = server.said.out.length;
  const killed = await begin({ ...at, timeout: 60_000 }, [FOREVER, TOOLS[0]]);
  await until('the call is under way', () =>
    (server.said.out.slice(before).match(/POST/g) ?? []).length >= 4);
  // That was the call's arrival; the stream of its answer opens at once.
  await new Promise((resume) => setTimeout(resume, 500));
  await end(server);
  const seen = await killed.ended;
  checkResult('killed over HTTP: the call is a failed result', seen.results[0], false, /./);
  checkResult('killed over HTTP: so is the next', seen.results[1], false, /./);
  checkEnd('killed over HTTP', seen, 2);
  const none = await whole(at, []);
  const named = none.err.includes('server `s`') && none.err.includes(none.file);
  check('no server at the address: exit status 2, file and server', none.status === 2 && named, none);
}

async function crashes() {
  const args = [path.join(EVERYTHING, 'index.js'), 'stdio'];
  const { ended } = await begin(overStdio('killed', args, {}, false), [FOREVER, TOOLS[0]]);
  await until('the call is under way', () => read(`${work}/killed.said`).includes('/progress'));
  process.kill(Number(read(`${work}/killed.pid`)), 'SIGKILL');
  const seen = await ended;
  checkResult('killed in a call: it is a failed result', seen.results[0], false, /server `s` has ended/);
  checkResult('killed in a call: so is the next', seen.results[1], false, /server `s` has ended/);
  checkEnd('killed in a call', seen, 2);

  for (const [name, server] of [
    ['no such folder', plainly([FILES, path.join(work, 'not-there')])],
    ['no such program', { command: path.join(work, 'not-there') }],
  ]) {
    const none = await whole(server, []);
    const named = none.err.includes('server `s`') && none.err.includes(none.file);
    check(`${name}: exit status 2, file and server`, none.status === 2 && named, none);
    check(`${name}: no process is left`, none.left.length === 0, none.left);
  }
}

async function files() {
  fs.writeFileSync(path.join(place, 'beans.md'), 'Beans are planted in May.\n');
  const outside = path.join(fs.realpathSync(work), 'outside.md');
  fs.writeFileSync(outside, 'Not to be read.\n');
  const steps = [
    ['list_directory', { path: place }, true, /beans\.md/],
    ['read_file', { path: path.join(place, 'beans.md') }, true, /planted in May/],
    ['write_file', { path: path.join(place, 'peas.md'), content: 'Peas in March.' }, true, /wrote/i],
    ['search_files', { path: place, pattern: '**/*.md' }, true, /peas\.md/],
    ['read_file', { path: path.join(place, 'not-there.md') }, false, /ENOENT|not/],
    ['read_file', { path: outside }, false, /denied|outside/],
    ['write_file', { path: path.join(work, 'new.md'), content: 'x' }, false, /denied|outside/],
    ['read_file', { path: path.join(place, '../outside.md') }, false, /denied|outside/],
  ];
  const seen = await whole(plainly([FILES, place]), steps.map(([tool, input]) => [tool, input]));
  steps.forEach(([tool, input, ok, pattern], at) => {
    const what = `${path.relative(place, input.path) || '.'}${ok ? '' : ' is a failed result'}`;
    checkResult(`filesystem: ${tool} ${what}`, seen.results[at], ok, pattern);
  });
  check('filesystem: the file is written', read(path.join(place, 'peas.md')) === 'Peas in March.');
  check('filesystem: nothing is written outside', !fs.existsSync(path.join(work, 'new.md')));
  checkEnd('filesystem', seen, steps.length);
}

async function main() {
  for (const part of [everything, givenUp, overHttp, crashes, files]) {
    try {
      await part();
    } catch (error) {
      check(`${part.name}: broken off`, false, error.stack);
    }
  }
  for (const child of started) child.kill('SIGKILL');
  console.log(`mcp: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main();
