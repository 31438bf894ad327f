package calls

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// maxHAR bounds an HTTP archive, in bytes: it contains the answers too.
const maxHAR = 256 << 20

// archive is the part of an HTTP archive (HAR 1.2) that describes requests.
type archive struct {
	Log struct {
		Entries []entry `json:"entries"`
	} `json:"log"`
}

// entry is a request with its response. Browsers and Playwright add the fields that begin with _.
type entry struct {
	Started string `json:"startedDateTime"`
	Request struct {
		Method  string `json:"method"`
		URL     string `json:"url"`
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"headers"`
		Post     *postData `json:"postData"`
		BodySize int64     `json:"bodySize"`
	} `json:"request"`
	Response struct {
		Status  *int `json:"status"`
		Content struct {
			Type string `json:"mimeType"`
		} `json:"content"`
	} `json:"response"`
	FromCache string `json:"_fromCache"` // of Chrome
	FetchType string `json:"_fetchType"` // of Safari
}

// ownHeaders are set by tare or by the connection.
var ownHeaders = []string{"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer", "expect",
	"http2-settings"}

// readHAR reads an HTTP archive. With base, only requests to the site go to base, and
// those to other hosts are omitted. Headers and bodies may have expressions, and texts reads their
// files.
func readHAR(r io.Reader, name string, base *url.URL, texts *template.Reader) (*Source, error) {
	a, err := parseHAR(r, name)
	if err != nil {
		return nil, err
	}
	site := a.site()
	g := gather{Source: Source{Recorded: true}}
	var bodies int
	for i := range a.Log.Entries {
		e := &a.Log.Entries[i]
		fail := func(format string, args ...any) error {
			return fmt.Errorf("read %s: entry %d: %w", name, i+1, fmt.Errorf(format, args...))
		}
		u, err := printable.ParseURL(e.Request.URL)
		if err != nil {
			return nil, fail("%w", err)
		}
		why := e.omitted(u)
		if why == "" && base != nil && !sameSite(u.Host, site) {
			why = "requests to " + u.Host
		}
		var at time.Time
		if why == "" && e.Started != "" {
			if at, err = time.Parse(time.RFC3339Nano, e.Started); err != nil {
				return nil, fail("startedDateTime %.40q is not a time", e.Started)
			}
		}
		u.User, u.Fragment = nil, ""
		c := Call{URL: onto(base, u).String(), Call: load.Call{Name: pattern(e.Request.Method, u.EscapedPath()), Method: e.Request.Method}}
		for _, h := range e.Request.Headers {
			if !strings.HasPrefix(h.Name, ":") && !slices.Contains(ownHeaders, strings.ToLower(h.Name)) {
				c.Headers = append(c.Headers, h.Name+": "+h.Value)
			}
		}
		if why == "" {
			if why, err = e.readBody(&c, name); err != nil {
				return nil, fail("%w", err)
			}
		}
		if why != "" {
			g.omit(why)
			continue
		}
		if bodies += len(c.Body); bodies > maxBody {
			return nil, fail("the bodies have more than %d bytes", maxBody)
		}
		if texts != nil {
			errs := []error{texts.Check(string(c.Body), template.Body, strict.Position{File: "body", Line: 1, Column: 1})}
			for _, h := range c.Headers {
				errs = append(errs, texts.Check(h, template.Header, strict.Position{File: "header", Line: 1, Column: 1}))
			}
			if err := errors.Join(errs...); err != nil {
				return nil, fail("%w", err)
			}
		}
		if _, err := load.ParseTarget(c.URL); err != nil {
			return nil, fail("%w", err)
		}
		if err := g.add(c, at); err != nil {
			return nil, fail("%w", err)
		}
	}
	return g.done(name)
}

// site is the host of the first HTML page, otherwise of the first request.
func (a *archive) site() string {
	first := ""
	for i := range a.Log.Entries {
		e := &a.Log.Entries[i]
		u, err := url.Parse(e.Request.URL)
		if err != nil || e.omitted(u) != "" {
			continue
		}
		if status := e.Response.Status; status != nil && *status/100 == 2 && strings.HasPrefix(e.Response.Content.Type, "text/html") {
			return u.Host
		}
		first = cmp.Or(first, u.Host)
	}
	return first
}

// omitted is why a request is not sent, or empty.
func (e *entry) omitted(u *url.URL) string {
	status := 200
	if e.Response.Status != nil {
		status = *e.Response.Status
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https", status == http.StatusSwitchingProtocols:
		return "requests of WebSockets, data: or blob: URLs"
	case e.FromCache != "", strings.HasSuffix(e.FetchType, "Cache"):
		return "requests that the browser's cache answered"
	case status <= 0:
		return "requests that the browser blocked or aborted"
	}
	return ""
}

// sameSite reports whether two hosts are one, with or without www.
func sameSite(a, b string) bool {
	return strings.TrimPrefix(a, "www.") == strings.TrimPrefix(b, "www.")
}

func parseHAR(r io.Reader, name string) (*archive, error) {
	var a archive
	text, err := io.ReadAll(io.LimitReader(r, maxHAR+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxHAR {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, maxHAR)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // of Windows
	if err := json.Unmarshal(text, &a); err != nil {
		at := strict.Problem{File: name, Line: 1, Column: 1, Message: fmt.Sprintf("no HTTP archive: %v", err)}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			before := string(text[:max(0, syntax.Offset-1)])
			at.Line += strings.Count(before, "\n")
			at.Column = len(before) - strings.LastIndexByte(before, '\n')
		}
		return nil, at
	}
	return &a, nil
}
