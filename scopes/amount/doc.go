// Package amount holds amounts of money and numbers of things, such as "EUR 50" and "mails 20", and
// limits on them.
package amount
