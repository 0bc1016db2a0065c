// Verifies with the library of Standard Webhooks what ebb sent (standard input), and that
// it refuses the same with another body, id or moment.
import { readFileSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'

const { secret, sent } = JSON.parse(readFileSync(0, 'utf8'))
const hook = new Webhook(secret)
let verified = 0
let refused = 0
for (const { headers, body } of sent) {
  const data = hook.verify(body, headers)
  if (!data.type || !data.timestamp || !data.data) throw new Error(`no payload of the scheme: ${body}`)
  verified++
  for (const [h, b] of [
    [headers, body.replace('{', '{ ')],
    [{ ...headers, 'webhook-id': headers['webhook-id'] + '0' }, body],
    [{ ...headers, 'webhook-timestamp': String(Number(headers['webhook-timestamp']) - 1) }, body],
  ]) {
    try {
      hook.verify(b, h)
    } catch {
      refused++
    }
  }
}
console.log(`verified ${verified}, refused ${refused}`)
