package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/cairnhq/cairn/clients/device"
)

// screen shows what happens. Frames come from the reader of a request, calls from those who do them.
type screen struct {
	out    io.Writer
	json   bool
	person bool // lines are typed, so there is a prompt, and what was typed ends a line

	mu  sync.Mutex
	mid bool // in the middle of a line
}

func (s *screen) prompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.person && !s.json {
		s.write("> ")
	}
}

// typed says that somebody ended a line.
func (s *screen) typed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mid = s.mid && !s.person
}

func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.json {
		s.fresh()
	}
}

// did shows a call and its answer.
func (s *screen) did(call device.Call, answer device.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		s.write(line(map[string]any{"type": "did", "id": call.ID, "answer": answer}) + "\n")
		return
	}
	s.fresh()
	s.write(fmt.Sprintf("  [%s] %s\n", strings.TrimSpace(call.Action+" "+call.Table), summary(call, answer)))
}

// summary says in a line what a call did.
func summary(call device.Call, answer device.Answer) string {
	var got struct {
		Row     device.Row        `json:"row"`
		Rows    []json.RawMessage `json:"rows"`
		Results []json.RawMessage `json:"results"`
		Deleted *bool             `json:"deleted"`
		OK      *bool             `json:"ok"`
		Error   string            `json:"error"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return string(answer)
	}
	switch {
	case got.Error != "":
		return "failed: " + got.Error
	case got.Row != nil:
		return line(filled(got.Row))
	case got.Rows != nil:
		return fmt.Sprintf("%d rows", len(got.Rows))
	case got.Results != nil:
		return fmt.Sprintf("%d results", len(got.Results))
	case got.Deleted != nil:
		return fmt.Sprintf("deleted: %t", *got.Deleted)
	case got.OK != nil:
		return "ok"
	case call.Action == "get":
		return "no such row"
	}
	return string(answer)
}

// filled is a row without the columns that have no value.
func filled(row device.Row) device.Row {
	short := device.Row{}
	for column, value := range row {
		if value != nil {
			short[column] = value
		}
	}
	return short
}

// show shows a frame.
func (s *screen) show(f device.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		s.write(strings.TrimSpace(string(f.Raw)) + "\n")
		return
	}
	switch f.Type {
	case "stream_text":
		s.write(f.Chunk)
	case "text_chunk":
		s.write(f.Text)
	case "stream_block":
		s.fresh()
		s.write(block(f))
	}
}

// block is a block in text.
func block(f device.Frame) string {
	switch f.BlockType {
	case "retry":
		return "  [the model failed and begins this answer again]\n"
	case "entity_ref":
		var data struct {
			Entity string       `json:"entity"`
			Rows   []device.Row `json:"rows"`
		}
		if json.Unmarshal(f.Data, &data) == nil && data.Rows != nil {
			var b strings.Builder
			for _, row := range data.Rows {
				fmt.Fprintf(&b, "  %s %s\n", data.Entity, line(filled(row)))
			}
			return b.String()
		}
	case "table":
		var data struct {
			Headers []string `json:"headers"`
			Rows    [][]any  `json:"rows"`
		}
		if json.Unmarshal(f.Data, &data) == nil {
			var b strings.Builder
			fmt.Fprintln(&b, "  "+strings.Join(data.Headers, " | "))
			for _, row := range data.Rows {
				cells := make([]string, len(row))
				for i, cell := range row {
					cells[i] = fmt.Sprint(cell)
				}
				fmt.Fprintln(&b, "  "+strings.Join(cells, " | "))
			}
			return b.String()
		}
	}
	return fmt.Sprintf("  [%s] %s\n", f.BlockType, f.Data)
}

// done shows a request's end.
func (s *screen) done(r device.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		return // the frames said it
	}
	s.fresh()
	if r.Err != nil {
		s.write(fmt.Sprintf("  [failed] %v\n", r.Err))
	}
}

func (s *screen) fresh() {
	if s.mid {
		s.write("\n")
	}
}

// write notes where the line stands. An output that is gone ends the program by its own signal.
func (s *screen) write(text string) {
	if text == "" {
		return
	}
	_, _ = io.WriteString(s.out, text)
	s.mid = !strings.HasSuffix(text, "\n")
}
