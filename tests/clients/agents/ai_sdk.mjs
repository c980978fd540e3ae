// The AI SDK, streaming; the first argument is the provider and its protocol.

import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

// The packages are in a cache, not beside this file.
const packages = createRequire(`${process.env.CLIENT_PACKAGES}/package.json`)
const load = (name) => import(pathToFileURL(packages.resolve(name)).href)
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

// Each provider reads its key from the environment; of base URLs not all do.
const providers = {
  anthropic: async () => {
    const { createAnthropic } = await load('@ai-sdk/anthropic')
    const baseURL = `${process.env.ANTHROPIC_BASE_URL}/v1`
    return createAnthropic({ baseURL })('claude-sonnet-4-5')
  },
  chat: async () => {
    const { createOpenAI } = await load('@ai-sdk/openai')
    return createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat('gpt-4.1')
  },
  responses: async () => {
    const { createOpenAI } = await load('@ai-sdk/openai')
    return createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).responses('gpt-5.6-sol')
  },
  compatible: async () => {
    const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible')
    return createOpenAICompatible({
      name: 'deepseek',
      baseURL: process.env.OPENAI_BASE_URL,
      apiKey: process.env.OPENAI_API_KEY,
      includeUsage: true,
    })('deepseek-v4-flash')
  },
}
const [provider, prompt] = process.argv.slice(2)

const result = streamText({
  model: await providers[provider](),
  system: 'Be brief.',
  prompt,
  tools: { Bash: bash },
  stopWhen: stepCountIs(20),
  onError: ({ error }) => {
    console.error(error)
    process.exitCode = 1
  },
})
console.log(JSON.stringify({ answer: await result.text }))
