// Continues a prompt with the model in char_gpt.o, always by the likeliest character. Needs neither
// a compiler nor LLVM nor Weft to run. Usage: generate PROMPT [LENGTH]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "char_gpt.h"   // the model: weft_model_char_gpt
#include "vocabulary.h" // kVocabulary (code points, ascending), VOCABULARY, CONTEXT

static int id_of(uint32_t character) {
  int low = 0, high = VOCABULARY;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (kVocabulary[middle] < character)
      low = middle + 1;
    else
      high = middle;
  }
  return low < VOCABULARY && kVocabulary[low] == character ? low : -1;
}

// Reads one character of UTF-8; 0 at the end or where there is none.
static uint32_t next_character(const char **text) {
  const unsigned char *bytes = (const unsigned char *)*text;
  int length = bytes[0] == 0         ? 0
               : bytes[0] < 0x80     ? 1
               : bytes[0] >> 5 == 6  ? 2
               : bytes[0] >> 4 == 14 ? 3
               : bytes[0] >> 3 == 30 ? 4
                                     : 0;
  if (length == 0)
    return 0;
  uint32_t character = length == 1 ? bytes[0] : bytes[0] & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if (bytes[i] >> 6 != 2)
      return 0;
    character = character << 6 | (bytes[i] & 0x3Fu);
  }
  *text += length;
  return character;
}

static void print_character(uint32_t c) {
  if (c < 0x80) {
    putchar((int)c);
  } else if (c < 0x800) {
    putchar((int)(0xC0 | c >> 6));
    putchar((int)(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    putchar((int)(0xE0 | c >> 12));
    putchar((int)(0x80 | (c >> 6 & 0x3F)));
    putchar((int)(0x80 | (c & 0x3F)));
  } else {
    putchar((int)(0xF0 | c >> 18));
    putchar((int)(0x80 | (c >> 12 & 0x3F)));
    putchar((int)(0x80 | (c >> 6 & 0x3F)));
    putchar((int)(0x80 | (c & 0x3F)));
  }
}

// The last CONTEXT characters, from the front; what is behind them the model does not look at.
typedef struct {
  int64_t ids[CONTEXT];
  int seen;
} Window;

static void append(Window *window, int id) {
  if (window->seen == CONTEXT) {
    memmove(window->ids, window->ids + 1, sizeof window->ids - sizeof *window->ids);
    --window->seen;
  }
  window->ids[window->seen++] = id;
}

// Fills the window with the prompt; 0, or what is wrong with it.
static const char *read_prompt(const char *prompt, Window *window) {
  if (*prompt == '\0')
    return "the prompt is empty";
  while (*prompt != '\0') {
    uint32_t character = next_character(&prompt);
    if (character == 0)
      return "the prompt is not UTF-8";
    int id = id_of(character);
    if (id < 0)
      return "the prompt has a character that the model does not know";
    append(window, id);
  }
  return NULL;
}

// Prints `length` more characters; 0, or what went wrong.
static const char *continue_text(weft_model *model, Window *window, long length) {
  float *logits = malloc(sizeof(float) * CONTEXT * VOCABULARY);
  if (!logits)
    return "out of memory";
  const char *error = NULL;
  for (long i = 0; i < length && !error; ++i) {
    const void *inputs[] = {window->ids};
    void *outputs[] = {logits};
    if (weft_model_run(model, inputs, outputs)) {
      error = weft_model_error();
      break;
    }
    const float *last = logits + (size_t)(window->seen - 1) * VOCABULARY;
    int likeliest = 0;
    for (int id = 1; id < VOCABULARY; ++id)
      if (last[id] > last[likeliest])
        likeliest = id;
    print_character(kVocabulary[likeliest]);
    append(window, likeliest);
  }
  free(logits);
  return error ? error : fflush(stdout) ? "the output cannot be written" : NULL;
}

int main(int argc, char **argv) {
  char *end = NULL;
  long length = argc > 2 ? strtol(argv[2], &end, 10) : 200;
  if (argc < 2 || argc > 3 || length < 0 || (end && *end != '\0')) {
    fprintf(stderr, "usage: %s PROMPT [LENGTH]\n", argv[0]);
    return 2;
  }
  Window window = {{0}, 0};
  const char *error = read_prompt(argv[1], &window);
  if (error) {
    fprintf(stderr, "%s: %s\n", argv[0], error);
    return 2;
  }
  weft_model *model = NULL;
  if (weft_model_open(&weft_model_char_gpt, NULL, &model))
    error = weft_model_error();
  if (!error)
    error = continue_text(model, &window, length);
  if (error)
    fprintf(stderr, "%s: %s\n", argv[0], error);
  weft_model_close(model);
  return error ? 1 : 0;
}
