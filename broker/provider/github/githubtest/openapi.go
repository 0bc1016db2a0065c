package githubtest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

//go:embed testdata/openapi.json
var descriptionJSON []byte

// description is GitHub's OpenAPI description, shortened. It is parsed once and never
// changed.
var description = mustLoad()

func mustLoad() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(descriptionJSON)
	if err != nil {
		panic(err)
	}
	return doc
}

// router is made once, like the description.
var router = sync.OnceValues(func() (routers.Router, error) { return gorillamux.NewRouter(description) })

// Permissions returns the levels of each permission from the schema app-permissions.
func Permissions() map[string][]string {
	out := map[string][]string{}
	for name, p := range description.Components.Schemas["app-permissions"].Value.Properties {
		for _, level := range p.Value.Enum {
			out[name] = append(out[name], level.(string))
		}
	}
	return out
}

var checks = openapi3filter.Options{MultiError: true}

// contract fails the test t for each request and response that differs from the description.
type contract struct {
	t      testing.TB
	prefix string // of the API's path
	router routers.Router
}

// input returns a request in the description's form, without the API's prefix.
func (c *contract) input(r *http.Request, body []byte) (*openapi3filter.RequestValidationInput, error) {
	u := &url.URL{Scheme: "https", Host: "api.github.com", Path: strings.TrimPrefix(r.URL.Path, c.prefix), RawQuery: r.URL.RawQuery}
	bare, err := http.NewRequestWithContext(context.Background(), r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	bare.Header = r.Header.Clone()
	route, params, err := c.router.FindRoute(bare)
	if err != nil {
		return nil, err
	}
	return &openapi3filter.RequestValidationInput{Request: bare, PathParams: params, Route: route, Options: &checks}, nil
}

// checkRequest fails the test when a request is not as GitHub documents it. It also refuses
// unknown members and permissions, which the description allows and GitHub ignores, because
// they could be a misspelt restriction.
func (c *contract) checkRequest(r *http.Request, body []byte) {
	in, err := c.input(r, body)
	if err != nil {
		c.t.Errorf("githubtest: %s %s is in no description: %v", r.Method, r.URL.Path, err)
		return
	}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
		c.t.Errorf("githubtest: %s %s: the request is not as documented: %v", r.Method, r.URL.Path, err)
	}
	if !strings.HasSuffix(r.URL.Path, "/access_tokens") || len(body) == 0 {
		return
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var w wanted
	if err := d.Decode(&w); err != nil {
		c.t.Errorf("githubtest: a mint with members that GitHub ignores: %v", err)
	}
	for name := range w.Permissions {
		if description.Components.Schemas["app-permissions"].Value.Properties[name] == nil {
			c.t.Errorf("githubtest: a mint with the permission %q, which GitHub does not know", name)
		}
	}
}

// checkAnswer fails the test when a response is not as GitHub documents it. Error statuses
// that an operation does not list must have the schema of all others.
func (c *contract) checkAnswer(r *http.Request, rec *httptest.ResponseRecorder) {
	in, err := c.input(r, nil)
	if err != nil {
		return // checkRequest has reported it
	}
	if in.Route.Operation.Responses.Status(rec.Code) == nil {
		var body any
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			c.t.Errorf("githubtest: %s %s: %d without JSON: %v", r.Method, r.URL.Path, rec.Code, err)
		} else if err := description.Components.Schemas["basic-error"].Value.VisitJSON(body, openapi3.VisitAsResponse()); err != nil {
			c.t.Errorf("githubtest: %s %s: %d is no basic-error: %v", r.Method, r.URL.Path, rec.Code, err)
		}
		return
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: rec.Code, Header: rec.Header(), Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())), Options: &checks,
	})
	if err != nil {
		c.t.Errorf("githubtest: %s %s: the answer %d is not as documented: %v\n%.2000s", r.Method, r.URL.Path, rec.Code, err, rec.Body)
	}
}

// example returns an object with all required members of a schema, from its examples and
// types.
func example(schema string) map[string]any {
	return value(description.Components.Schemas[schema].Value, 0).(map[string]any)
}

func value(s *openapi3.Schema, depth int) any {
	switch {
	case s.Nullable && depth > 0:
		return nil
	case s.Example != nil:
		return s.Example
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return value(s.OneOf[0].Value, depth+1)
	case len(s.AnyOf) > 0:
		return value(s.AnyOf[0].Value, depth+1)
	case len(s.AllOf) > 0:
		return value(s.AllOf[0].Value, depth+1)
	}
	return ofType(s, depth)
}

func ofType(s *openapi3.Schema, depth int) any {
	switch {
	case s.Type.Is("array"):
		return []any{}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 1
	case s.Type.Is("string"):
		return map[string]string{"date-time": "2026-01-01T00:00:00Z", "uri": "https://api.github.com/x", "email": "a@example.com"}[s.Format]
	}
	out := map[string]any{}
	for name, p := range s.Properties {
		if slices.Contains(s.Required, name) {
			out[name] = value(p.Value, depth+1)
		}
	}
	return out
}
