package provider

// A placeholder is what a sandbox holds in place of a credential that stays in ebb. It
// names a lease and proves nothing: whoever shows it has to prove who he is as well.
const (
	PlaceholderPrefix = "ebb-placeholder."
	PlaceholderFormat = "urn:ebb:token-type:placeholder" // issued_token_type (RFC 8693 section 3)
)

// Placeholder is the one of a lease.
func Placeholder(leaseID string) Secret { return NewSecret(PlaceholderPrefix + leaseID) }
