// Package fields reads requests whose body is a JSON object or a form, such as a payment or a mail.
//
// The operator lists every field that a body may have, and the role of each: the amount that a
// request spends, the recipients that a scope must name, the texts that approvers see. A body with
// any other field is refused, because a server may act on it. So is a body that two servers can read
// in different ways: fields that occur twice, or whose names differ only by case, a Content-Type that
// does not match the body, parameters in the URL.
package fields
