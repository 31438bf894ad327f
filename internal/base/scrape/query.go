package scrape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits of an answer of Prometheus.
const (
	queryWithin = time.Minute
	queryLimit  = 64 << 20 // bytes
)

// Query sends a query to the HTTP API of a Prometheus, and returns the samples of its vector.
func Query(ctx context.Context, base, query string) (all []Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryWithin)
	defer cancel()
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New("the address of Prometheus is not a URL such as http://localhost:9090")
	}
	to := u.JoinPath("api/v1/query")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(url.Values{"query": {query}}.Encode()))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", to.Redacted(), err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", to.Redacted(), errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, queryLimit))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", to.Redacted(), err)
	}
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  []any             `json:"value"` // a time and a number
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error != "" || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query %s: %s: %.200q is no answer of Prometheus with a vector", to.Redacted(), resp.Status, body)
	}
	for _, r := range answer.Data.Result {
		if len(r.Value) != 2 {
			return nil, fmt.Errorf("query %s: a value has %d parts, expected a time and a number", to.Redacted(), len(r.Value))
		}
		n, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", to.Redacted(), err)
		}
		all = append(all, Sample{Labels: r.Metric, Value: n})
	}
	return all, nil
}
