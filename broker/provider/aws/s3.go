package aws

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// The actions of S3 scopes.
const (
	actRead    = "read"
	actWrite   = "write"
	actList    = "list"
	actDelete  = "delete"
	actPromote = "promote"
)

var s3Actions = []string{actRead, actWrite, actList, actDelete, actPromote}

// objectActions are the IAM actions for objects. Versions, ACLs, tags and locks are left out: an
// operator who needs them configures a statement.
var objectActions = map[string][]string{
	actRead:   {"s3:GetObject"},
	actWrite:  {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"},
	actDelete: {"s3:DeleteObject"},
}

// bucketForm is the form of names that S3 gives out today.
var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// place is what an S3 scope denotes: the object with that key or, when deep, all
// whose keys begin with it.
type place struct {
	bucket string
	key    string // with its "/" at the end when deep; "" and deep is the whole bucket
	deep   bool
}

func placeOf(s scopes.Scope) (place, error) {
	segments := s.Segments()
	p := place{bucket: segments[0]}
	if !bucketForm.MatchString(p.bucket) {
		return place{}, fmt.Errorf("%w: %s: the first part must be the name of one bucket", provider.ErrUnsupported, s)
	}
	rest := segments[1:]
	if len(rest) > 0 && rest[len(rest)-1] == scopes.Rest {
		p.deep, rest = true, rest[:len(rest)-1]
	}
	if slices.Contains(rest, scopes.Any) {
		return place{}, fmt.Errorf("%w: %s: AWS has no pattern that ends at a slash: name the object, or everything below with /**", provider.ErrUnsupported, s)
	}
	p.key = strings.Join(rest, "/")
	if p.deep && p.key != "" {
		p.key += "/"
	}
	if p.key == "" && !p.deep {
		return place{}, fmt.Errorf("%w: %s: name an object, or everything in the bucket with /**", provider.ErrUnsupported, s)
	}
	return p, nil
}

// pattern is the place's objects, behind their bucket, as IAM writes them.
func (p place) pattern() string {
	if p.deep {
		return literal(p.bucket+"/"+p.key) + "*"
	}
	return literal(p.bucket + "/" + p.key)
}

func objectARN(partition string, p place) string { return "arn:" + partition + ":s3:::" + p.pattern() }

// listings are buckets to the prefixes that may be listed: one condition takes
// all of a bucket.
type listings map[string][]string

func (l listings) permissions(partition string) []permission {
	var out []permission
	for _, bucket := range slices.Sorted(maps.Keys(l)) {
		p := permission{actions: []string{"s3:ListBucket"}, resources: []string{"arn:" + partition + ":s3:::" + literal(bucket)}}
		if prefixes := slices.Compact(slices.Sorted(slices.Values(l[bucket]))); !slices.Contains(prefixes, "*") {
			p.when = conditions{"StringLike": {"s3:prefix": prefixes}}
		}
		out = append(out, p)
	}
	return out
}

func (d *Driver) s3Permissions(s scopes.Scope, partition string, lists listings) ([]permission, error) {
	p, err := placeOf(s)
	if err != nil {
		return nil, err
	}
	if err := d.inAreas(s); err != nil {
		return nil, err
	}
	switch s.Action() {
	case actList:
		if !p.deep {
			return nil, fmt.Errorf("%w: %s: a listing is of everything that begins alike: end the resource with /**", provider.ErrUnsupported, s)
		}
		lists[p.bucket] = append(lists[p.bucket], literal(p.key)+"*")
		return nil, nil
	case actPromote:
		return d.promotion(s, p, partition)
	}
	return []permission{{actions: objectActions[s.Action()], resources: []string{objectARN(partition, p)}}}, nil
}

// promotion returns the permissions of CopyObject from an area's source to the place: to read the
// source, and to write only copies of it.
func (d *Driver) promotion(s scopes.Scope, to place, partition string) ([]permission, error) {
	for _, a := range d.areas {
		if !slices.Contains(a.actions, actPromote) || !a.whole(d.cfg.Name, actPromote).Covers(s) {
			continue
		}
		from := place{bucket: a.from.bucket, key: a.from.key + strings.TrimPrefix(to.key, a.place.key), deep: to.deep}
		source := from.bucket + "/" + from.key
		end := ""
		if from.deep {
			end = "*"
		}
		// The condition sees the header as the client wrote it.
		var headers many
		for _, h := range []string{source, (&url.URL{Path: source}).EscapedPath(), strictEscape(source)} {
			headers = append(headers, literal(h)+end, "/"+literal(h)+end)
		}
		slices.Sort(headers)
		return []permission{
			{actions: objectActions[actRead], resources: []string{objectARN(partition, from)}},
			{actions: []string{"s3:PutObject"}, resources: []string{objectARN(partition, to)},
				when: conditions{"StringLike": {"s3:x-amz-copy-source": slices.Compact(headers)}}},
		}, nil
	}
	return nil, fmt.Errorf("%w: %s: no area is promoted to there", provider.ErrUnsupported, s)
}

// strictEscape escapes all but unreserved characters and slashes, as SDKs do.
func strictEscape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}

// area is an Area, checked; its places are deep.
type area struct {
	prefix  string // as configured
	place   place
	actions []string
	from    place
}

// whole is everything in the area, for one action.
func (a area) whole(name, action string) scopes.Scope {
	s, _ := scopes.New(name, a.prefix+"/"+scopes.Rest, action) // checked at load; a zero scope covers nothing
	return s
}

// inAreas refuses what reaches into an area with an action that it has not.
func (d *Driver) inAreas(s scopes.Scope) error {
	for _, a := range d.areas {
		if !slices.Contains(a.actions, s.Action()) && a.whole(d.cfg.Name, s.Action()).Overlaps(s) {
			return fmt.Errorf("%w: %s: %s can only be used to %s", provider.ErrUnsupported, s, a.prefix, strings.Join(a.actions, ", "))
		}
	}
	return nil
}

func (c Config) readAreas(ps *problems) []area {
	var out []area
	deep := func(i int, key, prefix string) place {
		s, err := scopes.New(c.Name, prefix+"/"+scopes.Rest, actRead)
		if err == nil {
			var p place
			if p, err = placeOf(s); err == nil {
				return p
			}
		}
		ps.add("areas[%d].%s: %q is not bucket or bucket/prefix", i, key, prefix)
		return place{}
	}
	for i, a := range c.Areas {
		one := area{prefix: a.Prefix, place: deep(i, "prefix", a.Prefix), actions: a.Actions}
		for _, act := range a.Actions {
			if !slices.Contains(s3Actions, act) {
				ps.add("areas[%d].actions: %q is none of %s", i, act, strings.Join(s3Actions, ", "))
			}
		}
		if promotes := slices.Contains(a.Actions, actPromote); promotes != (a.From != "") {
			ps.add("areas[%d]: promote and from go together", i)
		} else if promotes {
			one.from = deep(i, "from", a.From)
		}
		for j, other := range out {
			if one.whole(c.Name, actRead).Overlaps(other.whole(c.Name, actRead)) {
				ps.add("areas[%d] lies in areas[%d], or around it: which rules would hold?", i, j)
			}
		}
		out = append(out, one)
	}
	return out
}
