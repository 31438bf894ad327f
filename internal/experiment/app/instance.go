package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Check validates an instance that was built by the program. The error is a
// [strict.Problems] without positions.
func (i Instance) Check() error {
	b, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("check service %s: %w", i.Name, err)
	}
	_, err = DecodeInstance("service "+i.Name, b)
	mistakes, _ := errors.AsType[strict.Problems](err)
	for k := range mistakes {
		mistakes[k].Line, mistakes[k].Column = 0, 0
	}
	return err
}

// Instance is the complete configuration of one running service. The platform
// writes it, tare-agent reads it as JSON or YAML, and it can be read and changed
// over REST.
type Instance struct {
	Name string `yaml:"name" json:"name"`
	// Protocol of its requests. Empty means HTTP. It cannot change while the instance runs.
	Protocol string `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	Behavior `yaml:",inline"`
	// Version is shown by each answer, in the header x-tare-version. 0: no header.
	Version int `yaml:"version,omitempty" json:"version,omitempty"`
	// Replica adds the name of the host to that header, a space after the version.
	Replica bool `yaml:"replica,omitempty" json:"replica,omitempty"`
	// Calls are made for every request, before the response.
	Calls []Upstream `yaml:"calls,omitempty" json:"calls,omitempty"`
}

// Upstream is a service an instance calls, by the URLs that lead to it, taken in
// turn. Without a service and URLs it is a step that only waits.
type Upstream struct {
	Service string   `yaml:"service,omitempty" json:"service,omitempty"`
	URLs    []string `yaml:"urls,omitempty" json:"urls,omitempty"`
	// Host is the header Host of the calls, or :authority. Empty means the host of each URL.
	Host        string `yaml:"host,omitempty" json:"host,omitempty"`
	CallOptions `yaml:",inline"`
}

// maxCalls bounds the calls one request can set off at one service.
const maxCalls = 1000

// DecodeInstance reads an instance. The error is a [strict.Problems] with
// positions in the file name.
func DecodeInstance(name string, data []byte) (Instance, error) {
	var i Instance
	doc, err := strict.Parse(name, data)
	if err != nil {
		return i, err
	}
	doc.Decode(&i)
	i.validate(doc)
	if err := doc.Err(); err != nil {
		return Instance{}, err
	}
	return i, nil
}

func (i Instance) validate(doc *strict.Document) {
	v := checks{r: doc}
	if !IsLabel(i.Name) {
		v.report("name", notLabel(i.Name), labelHint)
	}
	v.protocol("protocol", i.Protocol, Protocols())
	v.behavior("", i.Behavior)
	if i.Version < 0 || i.Version > math.MaxInt32 {
		v.report("version", fmt.Sprintf("%d is not between 0 and %d", i.Version, math.MaxInt32), "")
	}
	if i.Protocol == TCP && len(i.Calls) > 0 {
		v.report("calls", "a tcp service cannot call others", "remove the calls, or use protocol http1")
	}
	if len(i.Calls) > maxCalls {
		v.report("calls", fmt.Sprintf("%d calls, more than %d", len(i.Calls), maxCalls), "")
		return
	}
	for j, up := range i.Calls {
		v.upstream(fmt.Sprintf("calls[%d]", j), up, j)
	}
}

// called are the protocols a call can be made by.
var called = []string{HTTP1, HTTP2, GRPC}

func (v checks) upstream(at string, up Upstream, index int) {
	v.options(at, up.CallOptions, index)
	if len(up.URLs) == 0 && (up.Service != "" || up.Wait.IsZero()) {
		v.report(at+".urls", "no URL is given", "a step that only waits has no service either")
	}
	for k, raw := range up.URLs {
		if err := checkURL(raw); err != nil {
			v.report(fmt.Sprintf("%s.urls[%d]", at, k), err.Error(), "write http://HOST:PORT/, also for calls by gRPC")
		}
	}
}

func checkURL(raw string) error {
	u, err := printable.ParseURL(raw)
	switch {
	case err != nil:
		return err
	case u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "":
		return fmt.Errorf("%.80q is not an http URL", printable.URL(raw))
	}
	return nil
}

func (v checks) protocol(path, name string, known []string) {
	if name != "" && !slices.Contains(known, name) {
		v.report(path, fmt.Sprintf("unknown protocol %.60q", name), strict.DidYouMean(name, known))
	}
}

// PatchInstance changes an instance by a JSON merge patch (RFC 7396): present
// fields replace, null fields remove. The result is validated like a file.
func PatchInstance(i Instance, name string, patch []byte) (Instance, error) {
	// Parse strictly first: a decoder of JSON ignores some mistakes, such as a
	// duplicate field.
	doc, err := strict.Parse(name, patch)
	if err != nil {
		return Instance{}, err
	}
	if err := doc.Err(); err != nil {
		return Instance{}, err
	}
	now, err := json.Marshal(i)
	if err != nil {
		return Instance{}, fmt.Errorf("patch service %s: %w", i.Name, err)
	}
	target, err := decodeJSON(now)
	if err != nil {
		return Instance{}, fmt.Errorf("patch service %s: %w", i.Name, err)
	}
	change, err := decodeJSON(patch)
	if err != nil {
		return Instance{}, strict.Problems{{File: name, Line: 1, Column: 1, Message: "cannot be read as JSON: " + err.Error()}}
	}
	merged, err := json.Marshal(merge(target, change))
	if err != nil {
		return Instance{}, fmt.Errorf("patch service %s: %w", i.Name, err)
	}
	changed, err := DecodeInstance(name, merged)
	if mistakes, wrong := errors.AsType[strict.Problems](err); wrong {
		return Instance{}, placed(mistakes, doc)
	}
	return changed, err
}

// placed maps the positions of mistakes from the merged document to the patch: the
// user has only the patch. Their messages begin with the path.
func placed(mistakes strict.Problems, patch *strict.Document) strict.Problems {
	for i, p := range mistakes {
		path, _, _ := strings.Cut(p.Message, ": ")
		at := patch.At(path)
		mistakes[i].Line, mistakes[i].Column = at.Line, at.Column
	}
	slices.SortStableFunc(mistakes, func(a, b strict.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return mistakes
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// merge is MergePatch of RFC 7396, section 2.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = merge(t[name], value)
		}
	}
	return t
}
