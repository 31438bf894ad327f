package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
)

// Completions is a stand-in for a completion server with the interface of OpenAI: it answers every path with tokens at a given
// pace, as one object or, with "stream": true or without a body, as events. GET /healthz succeeds at once.
type Completions struct {
	Tokens int           // of an answer; max_tokens of the request may be fewer
	First  time.Duration // from the request to the first token
	Pace   time.Duration // between two tokens
}

// maxPrompt bounds the body of a request, bytes.
const maxPrompt = 16 << 20

// completion is the part of an answer that its text is in.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int       `json:"index"`
	Delta   *chatText `json:"delta,omitempty"`
	Message *chatText `json:"message,omitempty"`
	Finish  *string   `json:"finish_reason"`
}

type chatText struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

const tokenText = "tare "

// ServeHTTP implements [http.Handler].
func (c Completions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	asked := struct {
		Model     string `json:"model"`
		Stream    *bool  `json:"stream"`
		MaxTokens int    `json:"max_tokens"`
	}{Model: "tare"}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPrompt))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &asked)
	}
	switch {
	case err != nil:
		http.Error(w, "the body is no JSON of a completion: "+err.Error(), http.StatusBadRequest)
		return
	case r.URL.Path == "/healthz":
		return
	}
	tokens := c.Tokens
	if asked.MaxTokens > 0 {
		tokens = min(tokens, asked.MaxTokens)
	}
	answer := completion{ID: "chatcmpl-tare", Object: "chat.completion", Created: begin.Unix(), Model: cmp.Or(asked.Model, "tare")}
	stop := "stop"
	due := func(i int) time.Duration { return time.Until(begin.Add(c.First + time.Duration(i)*c.Pace)) }
	if asked.Stream == nil && len(body) == 0 || asked.Stream != nil && *asked.Stream {
		answer.Object = "chat.completion.chunk"
		_ = events(r.Context(), w, tokens, due, func(i int) any {
			answer.Choices = []choice{{Delta: &chatText{Content: tokenText}}}
			if i == 0 {
				answer.Choices[0].Delta.Role = "assistant"
			}
			if i == tokens-1 {
				answer.Choices[0].Finish = &stop
			}
			return answer
		})
		return // an error means that the client is gone
	}
	if wait.For(r.Context(), due(tokens-1)) != nil {
		return
	}
	answer.Choices = []choice{{Message: &chatText{"assistant", strings.Repeat(tokenText, tokens)}, Finish: &stop}}
	answer.Usage = &usage{1, tokens, 1 + tokens}
	w.Header().Set("Content-Type", typeJSON)
	_ = json.NewEncoder(w).Encode(answer)
}

// events sends the header at once, then each event when it is due, then the end mark.
func events(ctx context.Context, w http.ResponseWriter, n int, due func(int) time.Duration, event func(int) any) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w).Flush
	if err := flush(); err != nil {
		return err
	}
	for i := range n {
		if d := due(i); d > 0 {
			if err := wait.For(ctx, d); err != nil {
				return err
			}
		}
		b, err := json.Marshal(event(i))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "data: [DONE]\n\n")
	return err
}
