package ec2

import (
	"errors"
	"net/netip"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"
)

// maxContent is the maximum size of a document. AWS's have 0.5 KiB, and more with
// product codes.
const maxContent = 8 << 10

// document has the members of an instance identity document that are used. Unknown
// members are allowed: AWS has signed them, and ebb does not use them.
type document struct {
	AccountID        string `json:"accountId"`
	Region           string `json:"region"`
	InstanceID       string `json:"instanceId"`
	ImageID          string `json:"imageId"`
	InstanceType     string `json:"instanceType"`
	Architecture     string `json:"architecture"`
	AvailabilityZone string `json:"availabilityZone"`
	PrivateIP        string `json:"privateIp"`
	PendingTime      string `json:"pendingTime"`

	launched time.Time // PendingTime
}

var (
	accountForm  = regexp.MustCompile(`^[0-9]{12}$`)
	regionForm   = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]{1,16}){1,3}-[1-9][0-9]?$`)
	instanceForm = regexp.MustCompile(`^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)
	imageForm    = regexp.MustCompile(`^ami-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)
	wordForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// readDocument decodes a verified document. The decoder refuses duplicate members, and
// matches the names with their letter case.
func readDocument(content []byte) (document, error) {
	const public = "the signed document is not an instance identity document as AWS describes it"
	if len(content) > maxContent {
		return document{}, malformed(public, errors.New("too large"))
	}
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return document{}, malformed(public, err)
	}
	for _, m := range []struct {
		name, value string
		form        *regexp.Regexp
	}{
		{"accountId", d.AccountID, accountForm}, {"region", d.Region, regionForm}, {"instanceId", d.InstanceID, instanceForm},
		{"imageId", d.ImageID, imageForm}, {"instanceType", d.InstanceType, wordForm}, {"architecture", d.Architecture, wordForm},
		{"availabilityZone", d.AvailabilityZone, wordForm},
	} {
		if !m.form.MatchString(m.value) {
			return document{}, malformed(public, errors.New(m.name))
		}
	}
	var err error
	d.launched, err = time.Parse(time.RFC3339, d.PendingTime)
	if err != nil || d.launched.Format(time.RFC3339) != d.PendingTime {
		return document{}, malformed(public, errors.New("pendingTime"))
	}
	if d.PrivateIP != "" {
		ip, err := netip.ParseAddr(d.PrivateIP)
		if err != nil || ip.Zone() != "" {
			return document{}, malformed(public, errors.New("privateIp"))
		}
		d.PrivateIP = ip.String() // one spelling; IPv6 has many
	}
	return d, nil
}

// subject returns the Subject. The id of an instance is unique only within its region.
func (d document) subject() string { return d.AccountID + "/" + d.Region + "/" + d.InstanceID }

// The names of the selectors, as docs/attestors/ec2.md describes them.
const (
	selAccount  = "account"
	selRegion   = "region"
	selInstance = "instance_id"
)

// selectors returns the facts that a runner may register.
func (d document) selectors() map[string]string {
	out := map[string]string{
		selAccount: d.AccountID, selRegion: d.Region, selInstance: d.InstanceID, "image_id": d.ImageID,
		"instance_type": d.InstanceType, "architecture": d.Architecture, "availability_zone": d.AvailabilityZone,
	}
	if d.PrivateIP != "" {
		out["private_ip"] = d.PrivateIP
	}
	return out
}
