"""Import from and export to other toolkits' formats: Hugging Face, CTranslate2, ONNX."""
