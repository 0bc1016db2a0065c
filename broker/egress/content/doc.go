// Package content describes what a request does, as far as its body decides that: the branches a
// push changes, the mutations of a GraphQL document, the amount of a payment, the tables of an SQL
// statement.
//
// Each sub-package parses one kind of body into Facts. A parser has no effect of its own. It
// refuses a body that two servers can read differently, and it bounds its time and memory. A provider
// decides whether the facts are allowed: it maps them to scopes, which the lease must cover.
package content
