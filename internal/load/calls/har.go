package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// maxHAR bounds an HTTP archive, in bytes: it contains the answers too.
const maxHAR = 256 << 20

// archive is the part of an HTTP archive (HAR 1.2) that describes requests.
type archive struct {
	Log struct {
		Entries []struct {
			Started string `json:"startedDateTime"`
			Request struct {
				Method  string `json:"method"`
				URL     string `json:"url"`
				Headers []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"headers"`
				Post *struct {
					Text string `json:"text"`
				} `json:"postData"`
			} `json:"request"`
		} `json:"entries"`
	} `json:"log"`
}

// ownHeaders are set by tare or by the connection.
var ownHeaders = []string{"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer", "expect",
	"http2-settings"}

// readHAR reads an HTTP archive. With base, only requests to the host of the first go to base, and
// those to other hosts are omitted. Headers and bodies may have expressions, and texts reads their
// files.
func readHAR(r io.Reader, name string, base *url.URL, texts *template.Reader) (*Source, error) {
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
	var g gather
	var bodies int
	host := ""
	for i, e := range a.Log.Entries {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("read %s: entry %d: %w", name, i+1, fmt.Errorf(format, args...))
		}
		u, err := url.Parse(e.Request.URL)
		if err != nil {
			return nil, fail("%w", err)
		}
		if u.Scheme != "http" && u.Scheme != "https" {
			g.Omitted++ // data: and blob: URLs, WebSockets
			continue
		}
		if host == "" {
			host = u.Host
		}
		if base != nil && u.Host != host {
			g.Omitted++
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, e.Started)
		if err != nil {
			return nil, fail("startedDateTime %.40q is not a time", e.Started)
		}
		u.User, u.Fragment = nil, ""
		c := Call{URL: onto(base, u).String(), Call: load.Call{Name: pattern(e.Request.Method, u.EscapedPath()), Method: e.Request.Method}}
		for _, h := range e.Request.Headers {
			if !strings.HasPrefix(h.Name, ":") && !slices.Contains(ownHeaders, strings.ToLower(h.Name)) {
				c.Headers = append(c.Headers, h.Name+": "+h.Value)
			}
		}
		if p := e.Request.Post; p != nil && p.Text != "" {
			c.Body = []byte(p.Text)
			if bodies += len(c.Body); bodies > maxBody {
				return nil, fail("the bodies have more than %d bytes", maxBody)
			}
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
