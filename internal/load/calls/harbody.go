package calls

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/regular"
)

// postData is the body of a request in an HTTP archive.
type postData struct {
	Type     string `json:"mimeType"`
	Text     string `json:"text"`
	Encoding string `json:"encoding"` // base64, as in responses: not in HAR 1.2
	File     string `json:"_file"`    // of Playwright: a file beside the archive
	Params   []struct {
		Name  string  `json:"name"`
		Value *string `json:"value"`
		File  string  `json:"fileName"`
		Type  string  `json:"contentType"`
	} `json:"params"`
}

// missingBody is why a request with a body is not sent.
const missingBody = "requests whose body is neither in the archive nor beside it"

// readBody sets the body of a request. If the archive has none, it returns why the request is
// omitted. name is the path of the archive.
func (e *entry) readBody(c *Call, name string) (omitted string, err error) {
	p := e.Request.Post
	switch {
	case p == nil || p.Text == "" && p.File == "" && len(p.Params) == 0:
		if e.Request.BodySize > 0 && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, e.Request.Method) {
			return missingBody, nil
		}
	case p.Text != "" && p.Encoding == "base64":
		if c.Body, err = base64.StdEncoding.DecodeString(p.Text); err != nil {
			return "", fmt.Errorf("body: %w", err)
		}
	case p.Text != "" && p.Encoding != "":
		return "", fmt.Errorf("body: unknown encoding %.40q", p.Encoding)
	case p.Text != "":
		c.Body = []byte(p.Text)
	case p.File != "":
		if filepath.Base(p.File) != p.File { // no other directory: the archive may be of someone else
			return missingBody, nil
		}
		c.Body, err = regular.ReadInput(filepath.Join(filepath.Dir(name), p.File), maxBody)
		if errors.Is(err, fs.ErrNotExist) {
			return missingBody, nil
		}
		if err != nil {
			return "", fmt.Errorf("body: %w", err)
		}
	default:
		return p.form(c)
	}
	return "", nil
}

// form encodes the fields of a form.
func (p *postData) form(c *Call) (omitted string, err error) {
	kind := p.Type
	for _, h := range c.Headers { // has the boundary
		if name, value, _ := strings.Cut(h, ":"); strings.EqualFold(name, "content-type") {
			kind = strings.TrimSpace(value)
		}
	}
	media, parameters, _ := mime.ParseMediaType(kind)
	if media != "multipart/form-data" {
		var pairs []string
		for _, f := range p.Params {
			if f.Value == nil {
				return missingBody, nil
			}
			pairs = append(pairs, url.QueryEscape(f.Name)+"="+url.QueryEscape(*f.Value))
		}
		c.Body = []byte(strings.Join(pairs, "&"))
		return "", nil
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.SetBoundary(parameters["boundary"]); err != nil {
		return missingBody, nil // its type has none
	}
	for _, f := range p.Params {
		if f.Value == nil || *f.Value == "" && f.File != "" {
			return missingBody, nil
		}
		disposition := map[string]string{"name": f.Name}
		if f.File != "" {
			disposition["filename"] = f.File
		}
		header := textproto.MIMEHeader{"Content-Disposition": {mime.FormatMediaType("form-data", disposition)}}
		if f.Type != "" {
			header.Set("Content-Type", f.Type)
		}
		part, err := w.CreatePart(header)
		if err == nil {
			_, err = part.Write([]byte(*f.Value))
		}
		if err != nil {
			return "", fmt.Errorf("body: %w", err)
		}
	}
	err = w.Close()
	c.Body = body.Bytes()
	return "", err
}
