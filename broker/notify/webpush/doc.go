// Package webpush delivers messages to browsers by Web Push (RFC 8030), encrypted for the
// browser (RFC 8291) and signed with the key of this ebb (VAPID, RFC 8292).
//
//	config.go  Options, Config, New, the keys, and Subscription, which checks and seals
//	           what a browser sends
//	send.go    Send: one message to all browsers of a person
//
// A browser that an attacker may control supplies the address of a subscription. So the address
// must be https at a permitted push service, whose name must not resolve to a private address.
package webpush
