package service

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

func TestCompletions(t *testing.T) {
	c := Completions{Tokens: 4, First: 60 * time.Millisecond, Pace: 20 * time.Millisecond}
	s := httptest.NewServer(c)
	defer s.Close()
	for body, want := range map[string]int{"": 4, `{"model": "x", "max_tokens": 2, "stream": true}`: 2, `{"max_tokens": 9, "stream": true}`: 4} {
		begin := time.Now()
		r := must.Get(http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(body)))(t)
		header, n, ended, first := time.Since(begin), 0, false, time.Duration(0)
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			switch {
			case !ok:
			case data == "[DONE]":
				ended = true
			default:
				var got completion
				must.OK(t, json.Unmarshal([]byte(data), &got))
				if n++; n == 1 {
					first = time.Since(begin)
				}
				if last := got.Choices[0].Finish != nil; last != (n == want) || got.Choices[0].Delta.Content != tokenText || ended {
					t.Errorf("%s: event %d is %s", body, n, data)
				}
			}
		}
		r.Body.Close()
		if whole := time.Since(begin); n != want || !ended || header > c.First || first < c.First || whole < c.First+time.Duration(want-1)*c.Pace || r.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %d events, ended %v, header after %v, first after %v, all after %v", body, n, ended, header, first, whole)
		}
	}
	for _, body := range []string{`{"stream": false, "model": "m"}`, `{"model": "m"}`} { // gateways leave out defaults
		r := must.Get(http.Post(s.URL, "application/json", strings.NewReader(body)))(t)
		var got completion
		must.OK(t, json.NewDecoder(r.Body).Decode(&got))
		r.Body.Close()
		if got.Model != "m" || got.Usage.Completion != 4 || got.Choices[0].Message.Content != strings.Repeat(tokenText, 4) {
			t.Errorf("%s: %+v", body, got)
		}
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/v1/completions": http.StatusBadRequest} {
		body := map[int]string{http.StatusBadRequest: "{"}[want]
		r := must.Get(http.Post(s.URL+path, "", strings.NewReader(body)))(t)
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: status %d", path, r.StatusCode)
		}
	}
}
