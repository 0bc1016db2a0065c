// Package webhook delivers messages by HTTP POST, signed according to Standard Webhooks
// 1.0: webhook-id, webhook-timestamp, and webhook-signature over both and the body.
//
//	body.go     the JSON that is sent
//	webhook.go  Config, New; signatures: v1 (HMAC-SHA256) and v1a (Ed25519)
//
// A 2xx status is success. 410 stops the channel until ebb is restarted. After 429 and
// 503, delivery waits for the time in Retry-After. Every other status, no answer, and a
// redirect are retried. The body of an answer is ignored.
package webhook
