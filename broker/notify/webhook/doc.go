// Package webhook hands messages over by HTTP POST, signed as Standard Webhooks 1.0 says:
// webhook-id, webhook-timestamp, and webhook-signature over both and the body.
//
//	config.go   Config, New
//	sign.go     signatures: v1 (HMAC-SHA256) and v1a (Ed25519)
//	body.go     the JSON that is sent
//	webhook.go  Send
//
// Any 2xx is taken; 410 ends it for good; 429 and 503 are waited for as Retry-After says;
// every other answer, none, and a redirect are tried again. What the receiver says
// otherwise is not looked at.
package webhook
