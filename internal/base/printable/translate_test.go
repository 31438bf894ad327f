package printable

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/test/must"
)

// The errors are real ones of the libraries.
func TestTranslate(t *testing.T) {
	decoded := func(text string, into any) error { return json.Unmarshal([]byte(text), into) }
	number := func(text string) error { _, err := strconv.ParseFloat(text, 64); return err }
	duration := func(text string) error { _, err := time.ParseDuration(text); return err }
	link := func(text string) error { _, err := url.Parse(text); return err }
	type inner struct{ B int }
	var anything any
	for _, c := range []struct {
		err  error
		want string
	}{
		{decoded(`[1]`, &struct{ A inner }{}), "found JSON of type array, expected another type"},
		{decoded(`{"A": {"B": "x"}}`, &struct{ A inner }{}), "found JSON of type string in field A.B, expected another type"},
		{yaml.Unmarshal([]byte("a: 1\nb: [1]"), &struct{ B int }{}), "unmarshal errors:\n  line 2: found seq, expected another type"},
		{decoded(`300`, new(int8)), "found JSON of type number, expected another type"},
		{decoded(`{"A": 3}`, &struct{ A map[string]any }{}), "found JSON of type number in field A, expected another type"},
		{decoded(`nope`, &anything), "not JSON at 'o'"},
		{decoded(`{"a" 1}`, &anything), "not JSON at '1'"},
		{decoded(`{"a": 1 "b"}`, &anything), `not JSON at '"'`},
		{decoded(`[1 2]`, &anything), "not JSON at '2'"},
		{decoded(`{1}`, &anything), "not JSON at '1'"},
		{decoded(`x`, &anything), "not JSON at 'x'"},
		{decoded(`1 '`, &anything), `not JSON at '\''`},
		{decoded("\"a\nb\"", &anything), `not JSON at '\n'`},
		{decoded(`{"a":`, &anything), "the JSON ends too early"},
		{number("x\"y"), `"x\"y" is not a number`},
		{number("1e999"), `"1e999" is too large`},
		{duration("5"), `"5" has no unit, such as 10s`},
		{duration("5x"), `"x" is not a unit of time in "5x"`},
		{duration("x"), `"x" is not a duration, such as 10s`},
		{link("http://a:b/"), `URL "http://a:b/": invalid port ":b" after host`},
		{context.Canceled, "interrupted"},
		{context.DeadlineExceeded, "it took too long"},
		{io.ErrUnexpectedEOF, "it ends too early"},
		{io.EOF, "it has ended"},
		{requested(t, ""), `Get "http://server/": the connection was closed without an answer in HTTP`},
		{requested(t, "220 mail ready\r\n"), `Get "http://server/": the answer "mail" is not HTTP`},
	} {
		if got := Translate(c.err.Error()); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
		if got := Translate(c.want); got != c.want {
			t.Errorf("%q becomes %q", c.want, got)
		}
	}
	for _, text := range []string{`read "EOF.txt": no such file`, "plan.json: it is JSON", "types.yaml: line 3", "my time: 5"} {
		if Translate(text) != text {
			t.Errorf("%q becomes %q", text, Translate(text))
		}
	}
}

// requested is the error of a request over HTTP to a server that sends a text and closes the connection.
func requested(t *testing.T, text string) error {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
	r, err := (&http.Client{Transport: transport}).Get("http://server/")
	if err == nil {
		r.Body.Close()
	}
	return err
}
