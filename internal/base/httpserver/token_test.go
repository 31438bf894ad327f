package httpserver

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/test/must"
)

// Only requests with the token are answered, and only with one known JSON object.
func TestTokenServer(t *testing.T) {
	const token = "0123456789abcdef"
	if _, err := NewTokenServer(token[1:]); err == nil {
		t.Error("a short token is accepted")
	}
	s := must.Get(NewTokenServer(token))(t)
	type message struct{ A int }
	s.HandleFunc("POST /double", Handle(50, func(_ *http.Request, m message) (message, error) {
		switch {
		case m.A < 0:
			return m, Fail(http.StatusConflict, "%d is negative", m.A)
		case m.A == 0:
			return m, errors.New("nothing to double")
		}
		return message{2 * m.A}, nil
	}))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = s.Serve(t.Context(), l) }()
	url := "http://" + l.Addr().String()
	over := &http.Transport{}
	t.Cleanup(over.CloseIdleConnections)
	call := func(token, method, path string, body, into any) error {
		return Call(t.Context(), over, token, method, url+path, body, 1000, into)
	}
	var m message
	if err := call(token, http.MethodPost, "/double", message{21}, &m); err != nil || m.A != 42 {
		t.Errorf("%+v, %v", m, err)
	}
	var stamps clock.Stamps
	if err := call(token, http.MethodGet, "/clock", nil, &stamps); err != nil || stamps.Received == 0 || stamps.Sent < stamps.Received {
		t.Errorf("clock: %+v, %v", stamps, err)
	}
	for name, test := range map[string]struct {
		token, path string
		body        any
		status      int
	}{
		"another token": {token + "0", "/double", message{}, http.StatusUnauthorized},
		"unknown field": {token, "/double", map[string]int{"B": 1}, http.StatusBadRequest},
		"large":         {token, "/double", map[string]string{"A": string(make([]byte, 100))}, http.StatusBadRequest},
		"refused":       {token, "/double", message{-1}, http.StatusConflict},
		"failed":        {token, "/double", message{}, http.StatusInternalServerError},
		"unknown path":  {token, "/triple", message{}, http.StatusNotFound},
	} {
		var refused *Refused
		if err := call(test.token, http.MethodPost, test.path, test.body, nil); !errors.As(err, &refused) || refused.Status != test.status || refused.Message == "" {
			t.Errorf("%s: %v, want status %d", name, err, test.status)
		}
	}
}
