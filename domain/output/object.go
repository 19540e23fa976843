package output

// begin starts a candidate whose '{' was read.
func (h *Home) begin() {
	h.scan.begin()
	h.mode, h.raw, h.field, h.kind, h.text = candidate, append(h.raw[:0], '{'), "", "", textObject{}
}

// object ends an object that was ours, good or not: what was held back before it is no text.
func (h *Home) object() {
	h.commit()
	h.mode, h.gap, h.line = outside, true, true
}

func (h *Home) commit() {
	h.held, h.any = h.held[:0], true
	h.fence.entered()
}

// stepCandidate reads an object that may become anything.
func (h *Home) stepCandidate(c byte) string {
	before := h.scan.want
	top := len(h.scan.open) == 1
	if top && h.kind == "text" && before == wantValue && h.field == "content" && c == '"' && !h.text.wrong {
		h.scan.step(c)
		h.commit()
		h.mode, h.text.said, h.text.decode = saying, true, unescaper{}
		return ""
	}
	if !h.scan.step(c) {
		return h.noObject(one(c))
	}
	h.raw = append(h.raw, c)
	switch {
	case h.scan.want == ended:
		h.whole()
	case !top:
	case before != inString && before != inEscape && h.scan.want == inString:
		h.start = len(h.raw)
	case before == inString && h.scan.want == wantColon:
		h.field = unquote(string(h.raw[h.start : len(h.raw)-1]))
	case before == inString && h.scan.want == wantCommaOrEnd:
		h.value(string(h.raw[h.start : len(h.raw)-1]))
	case before == wantValue && !space(c) && h.field == "content":
		h.text.wrong = h.text.early == nil
	}
	return ""
}

// value takes a string at the top of a candidate, still quoted.
func (h *Home) value(inside string) {
	switch {
	case h.field == "content" && h.text.early == nil && !h.text.wrong:
		content := unquote(inside)
		h.text.early = &content
	case h.field == "type" && h.kind == "":
		switch h.kind = unquote(inside); h.kind {
		case "chart", "table", "timeline", "entity_ref":
			h.mode = building
		case "text":
			h.early()
		}
	}
}

// early says a content that came before its object was known to be text.
func (h *Home) early() {
	if h.text.early == nil {
		return
	}
	h.commit()
	h.out.text.WriteString(*h.text.early)
	h.mode, h.text.said, h.raw = closing, true, h.raw[:0]
}

// whole ends a candidate that is a complete object.
func (h *Home) whole() {
	if h.kind == "text" {
		h.warn("a text object was dropped: it has no content in words")
		h.object()
		return
	}
	h.mode = outside
	h.say(h.raw)
}

// noObject gives a candidate up: its brace is text, and the rest is read again.
func (h *Home) noObject(rest string) string {
	h.mode = outside
	h.sayByte('{')
	return string(h.raw[1:]) + rest
}

func (h *Home) stepContent(c byte) {
	var piece [8]byte
	said, end := h.text.decode.step(c, piece[:0])
	h.out.text.Write(said)
	if end {
		h.scan.closeString()
		h.mode, h.raw = closing, h.raw[:0]
	}
}

// stepClosing reads what follows a content. If it is no object's end, it is text.
func (h *Home) stepClosing(c byte) string {
	if !h.scan.step(c) {
		h.warn("a text object was not closed")
		h.object()
		return string(h.raw) + one(c)
	}
	h.raw = append(h.raw, c)
	if h.scan.want == ended {
		h.object()
	}
	return ""
}

func (h *Home) stepBlock(c byte) string {
	before, depth := h.scan.want, len(h.scan.open)
	if !h.scan.step(c) {
		h.mode, h.mistake, h.depth = skipping, len(h.raw), depth
		h.quoted, h.escaped = before == inEscape, false
		h.stepMistake(c)
		return ""
	}
	h.raw = append(h.raw, c)
	if h.scan.want == ended {
		if b, err := block(h.kind, h.raw, h.rows); err != nil {
			h.warn("a %s block was dropped: %v", h.kind, err)
		} else {
			h.out.show(b)
		}
		h.object()
	}
	return ""
}

// stepMistake looks for the end of a block that is no valid JSON, by counting braces.
func (h *Home) stepMistake(c byte) {
	h.raw = append(h.raw, c)
	switch {
	case h.escaped:
		h.escaped = false
	case h.quoted && c == '\\':
		h.escaped = true
	case c == '"':
		h.quoted = !h.quoted
	case h.quoted:
	case c == '{' || c == '[':
		h.depth++
	case c == '}' || c == ']':
		if h.depth--; h.depth == 0 {
			h.warn("a %s block was dropped: it is not valid JSON", h.kind)
			h.object()
		}
	}
}
