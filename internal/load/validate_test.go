package load

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tare-mesh/tare/test/must"
)

func TestValidate(t *testing.T) {
	good := Profile{Targets: []string{"http://127.0.0.1:80/"}, Rate: 500, Connections: 8, Timeout: time.Second, Measure: time.Second, ExpectSize: -1}
	must.OK(t, good.Validate())
	for want, spoil := range map[string]func(*Profile){
		"no target":                  func(p *Profile) { p.Targets = nil },
		"does not begin with http":   func(p *Profile) { p.Targets = []string{"gopher://x/"} },
		"names no host":              func(p *Profile) { p.Targets = []string{"http:///x"} },
		"is not between 1 and 65535": func(p *Profile) { p.Targets = []string{"http://x:0/"} },
		"credentials":                func(p *Profile) { p.Targets = []string{"http://a:b@x/"} },
		"NaN requests/s":             func(p *Profile) { p.Rate = math.NaN() },
		"-1 requests/s":              func(p *Profile) { p.Rate = -1 },
		`arrivals "bursty"`:          func(p *Profile) { p.Arrivals = "bursty" },
		"-1 connections":             func(p *Profile) { p.Connections = -1 },
		"than hosts (9)": func(p *Profile) {
			p.Targets = strings.Split("http://a http://b http://c http://d http://e http://f http://g http://h http://i/", " ")
		},
		"-2 workers":                 func(p *Profile) { p.Workers = -2 },
		"100000000 workers":          func(p *Profile) { p.Workers = 100_000_000 },
		"header Content-Length: the": func(p *Profile) { p.Headers = []string{"Content-Length: 5"} },
		"header transfer-encoding:":  func(p *Profile) { p.Headers = []string{"transfer-encoding: chunked"} },
		"-1 bytes of request body":   func(p *Profile) { p.RequestSize = -1 },
		"measure window":             func(p *Profile) { p.Measure = 0 },
		"timeout -1s":                func(p *Profile) { p.Timeout = -time.Second },
		"cpu 5000":                   func(p *Profile) { p.CPUs = []int{5000} },
		`protocol "smtp"`:            func(p *Profile) { p.Protocol = "smtp" },
		`method "GE T"`:              func(p *Profile) { p.Method = "GE T" },
	} {
		p := good
		spoil(&p)
		must.Fail(t, p.Validate(), want)
	}
	p := good
	p.Protocol = "smtp"
	if !errors.Is(p.Validate(), errors.ErrUnsupported) {
		t.Error("an unknown protocol is not marked as unsupported")
	}
}

// The rules for headers equal the rules of net/http.
func TestTokensAndValues(t *testing.T) {
	for c := range 0x250 {
		for _, text := range []string{string(rune(c)), "a" + string(rune(c)), string([]byte{byte(c)})} {
			if got, want := IsToken(text), httpguts.ValidHeaderFieldName(text); got != want {
				t.Errorf("token %q: %v, want %v", text, got, want)
			}
			if got, want := IsFieldValue(text), httpguts.ValidHeaderFieldValue(text); got != want {
				t.Errorf("value %q: %v, want %v", text, got, want)
			}
		}
	}
	if IsToken("") {
		t.Error("an empty token")
	}
}
