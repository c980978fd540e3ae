// The AI SDK on its Anthropic provider, streaming.

import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

// The packages are in a cache, not beside this file.
const packages = createRequire(`${process.env.CLIENT_PACKAGES}/package.json`)
const load = (name) => import(pathToFileURL(packages.resolve(name)).href)
const { createAnthropic } = await load('@ai-sdk/anthropic')
const { jsonSchema, stepCountIs, streamText, tool } = await load('ai')

const shell = (command) => {
  const done = spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8', timeout: 20_000 })
  return done.stdout + done.stderr || '(nothing was printed)'
}

const bash = tool({
  description: 'Runs a shell command in the working folder and returns what it prints.',
  inputSchema: jsonSchema({
    type: 'object',
    properties: { command: { type: 'string' }, description: { type: 'string' } },
    required: ['command'],
  }),
  execute: async ({ command }) => shell(command),
})

const result = streamText({
  model: createAnthropic({
    baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1`,
    apiKey: process.env.ANTHROPIC_API_KEY,
  })('claude-sonnet-4-5'),
  system: 'Be brief.',
  prompt: process.argv[2],
  tools: { Bash: bash },
  stopWhen: stepCountIs(20),
  onError: ({ error }) => {
    console.error(error)
    process.exitCode = 1
  },
})
console.log(JSON.stringify({ answer: await result.text }))
