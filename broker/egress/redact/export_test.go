package redact

// Forms is for tests.
var Forms = forms
